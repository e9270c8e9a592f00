package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A Cause is what kept a request from getting a response.
type Cause uint8

// Causes of failed requests.
const (
	Unreachable   Cause = iota // a connection was cut or not made, or there was no response in time
	Closed                     // the client is closed
	Untrusted                  // TLS: the certificates do not match, or one side does not use TLS
	Unsupported                // the broker does not have the request, or no version of it
	NotKafka                   // what listens there does not use Kafka's protocol
	CodedByBroker              // a response has an error code, see CodeOf
)

// CauseOf returns the cause of an error of a Client.
func CauseOf(err error) Cause {
	var coded *CodeError
	var own *kerr.Error
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &coded):
		return CodedByBroker
	case errors.Is(err, kgo.ErrClientClosed):
		return Closed
	case errors.As(err, &own):
		return CodedByBroker
	case errors.As(err, &header), errors.As(err, &alert), errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return Untrusted
	case strings.HasPrefix(err.Error(), "broker is too old"), strings.HasPrefix(err.Error(), "request key is unknown"): // kgo does not export these errors
		return Unsupported
	case strings.Contains(err.Error(), "tls alert"): // read without TLS
		return Untrusted
	case strings.Contains(err.Error(), "response size"):
		return NotKafka
	}
	return Unreachable
}

// CodeOf returns the error code of an error whose cause is CodedByBroker.
func CodeOf(err error) (code int16, message *string) {
	if coded, ok := errors.AsType[*CodeError](err); ok {
		return coded.Code, coded.Message
	}
	if own, ok := errors.AsType[*kerr.Error](err); ok { // of a request that kgo made itself, as a login
		return own.Code, nil
	}
	return 0, nil
}
