package remote

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/topic"
)

// properties are the settings of a client by their Kafka names. The functions set the fields of
// Config, or keep the value for the settings that belong together.
var properties = map[string]func(p *propertyReader, v string) (reason string){
	"bootstrap.servers": func(p *propertyReader, v string) string {
		brokers := strings.Split(strings.ReplaceAll(v, " ", ""), ",")
		if len(p.cfg.Brokers) > 0 && !slices.Equal(p.cfg.Brokers, brokers) {
			return "contradicts Brokers"
		}
		p.cfg.Brokers = brokers
		return ""
	},
	"client.id": func(p *propertyReader, v string) string {
		if p.cfg.ClientID != "" && p.cfg.ClientID != v {
			return "contradicts ClientID"
		}
		p.cfg.ClientID = v
		return ""
	},
	"request.timeout.ms":  func(p *propertyReader, v string) string { return setMillis(&p.cfg.RequestTimeout, v) },
	"metadata.max.age.ms": func(p *propertyReader, v string) string { return setMillis(&p.cfg.MetadataMaxAge, v) },
	"security.protocol": func(p *propertyReader, v string) string {
		p.protocol = strings.ToUpper(v)
		if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, p.protocol) {
			return "is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
		}
		return ""
	},
	"sasl.mechanism": func(p *propertyReader, v string) string {
		p.mechanism = v
		if !slices.Contains([]string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, v) {
			return "is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: set Config.SASL for others"
		}
		return ""
	},
	"sasl.jaas.config": func(p *propertyReader, v string) (reason string) {
		p.login, reason = parseJAAS(v)
		return reason
	},
	"ssl.truststore.type":            func(p *propertyReader, v string) string { return onlyPEM(v) },
	"ssl.keystore.type":              func(p *propertyReader, v string) string { return onlyPEM(v) },
	"ssl.truststore.location":        func(p *propertyReader, v string) string { return readFile(&p.authorities, v) },
	"ssl.truststore.certificates":    func(p *propertyReader, v string) string { p.authorities = []byte(v); return "" },
	"ssl.keystore.location":          func(p *propertyReader, v string) string { return readFile(&p.keystore, v) },
	"ssl.keystore.certificate.chain": func(p *propertyReader, v string) string { p.chain = []byte(v); return "" },
	"ssl.keystore.key":               func(p *propertyReader, v string) string { p.key = []byte(v); return "" },
	"ssl.endpoint.identification.algorithm": func(p *propertyReader, v string) string {
		if !strings.EqualFold(v, "https") {
			return "is not https: certificates are always checked for the name of the broker"
		}
		return ""
	},
}

// A propertyReader reads Config.Properties.
type propertyReader struct {
	cfg                               *Config
	protocol, mechanism               string
	login                             map[string]string // of sasl.jaas.config
	authorities, keystore, chain, key []byte            // PEM
}

// readProperties moves Properties into the fields of Config.
func (c *Config) readProperties() error {
	p := propertyReader{cfg: c}
	for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
		set, known := properties[name]
		reason := "is unknown, or not supported here"
		if known {
			reason = set(&p, c.Properties[name])
		}
		if reason != "" {
			shown := c.Properties[name]
			if strings.HasPrefix(name, "sasl.jaas") || strings.HasPrefix(name, "ssl.keystore") {
				shown = "..." // it may be a secret
			}
			return &topic.ConfigError{Key: name, Value: shown, Reason: reason}
		}
	}
	if err := p.secure(); err != nil {
		return err
	}
	return p.logIn()
}

// secure sets TLS.
func (p *propertyReader) secure() error {
	refuse := func(key, reason string) error { return &topic.ConfigError{Key: key, Reason: reason} }
	over := strings.HasSuffix(p.protocol, "SSL")
	files := p.authorities != nil || p.keystore != nil || p.chain != nil || p.key != nil
	switch {
	case !over && files:
		return refuse("security.protocol", "is neither SSL nor SASL_SSL, and there are settings of TLS")
	case !over && p.cfg.TLS != nil && p.protocol != "":
		return refuse("security.protocol", "contradicts TLS")
	case over && files && p.cfg.TLS != nil:
		return refuse("TLS", "is set twice: in the field, and by properties")
	case !over || p.cfg.TLS != nil:
		return nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.authorities != nil {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(p.authorities) {
			return refuse("ssl.truststore", "has no certificate in PEM")
		}
	}
	if p.keystore != nil {
		p.chain, p.key = p.keystore, p.keystore
	}
	if p.chain != nil || p.key != nil {
		pair, err := tls.X509KeyPair(p.chain, p.key)
		if err != nil {
			return refuse("ssl.keystore", "has no certificate with its key in PEM: "+err.Error())
		}
		t.Certificates = []tls.Certificate{pair}
	}
	p.cfg.TLS = t
	return nil
}

// logIn sets SASL.
func (p *propertyReader) logIn() error {
	refuse := func(key, reason string) error { return &topic.ConfigError{Key: key, Reason: reason} }
	over := strings.HasPrefix(p.protocol, "SASL")
	switch {
	case !over && (p.mechanism != "" || p.login != nil):
		return refuse("security.protocol", "is neither SASL_PLAINTEXT nor SASL_SSL, and there are settings of SASL")
	case !over:
		return nil
	case len(p.cfg.SASL) > 0 && (p.mechanism != "" || p.login != nil):
		return refuse("SASL", "is set twice: in the field, and by properties")
	case len(p.cfg.SASL) > 0:
		return nil
	case p.mechanism == "":
		return refuse("sasl.mechanism", "is missing")
	case p.login["username"] == "" || p.login["password"] == "":
		return refuse("sasl.jaas.config", "has no username and password")
	case strings.HasPrefix(p.mechanism, "SCRAM") != strings.HasSuffix(p.login[""], "ScramLoginModule"):
		return refuse("sasl.jaas.config", "is for another mechanism than "+p.mechanism)
	}
	user, pass := p.login["username"], p.login["password"]
	var m sasl.Mechanism
	switch p.mechanism {
	case "PLAIN":
		m = plain.Auth{User: user, Pass: pass}.AsMechanism()
	case "SCRAM-SHA-256":
		m = scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()
	default:
		m = scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()
	}
	p.cfg.SASL = []sasl.Mechanism{m}
	return nil
}

func setMillis(field *time.Duration, v string) (reason string) {
	ms, err := strconv.ParseInt(v, 10, 32)
	d := time.Duration(ms) * time.Millisecond
	switch {
	case err != nil || ms <= 0:
		return "is no positive number of milliseconds"
	case *field != 0 && *field != d:
		return fmt.Sprintf("contradicts the field's %s", *field)
	}
	*field = d
	return ""
}

func onlyPEM(v string) (reason string) {
	if v != "PEM" {
		return "is not PEM: convert the store, or set Config.TLS"
	}
	return ""
}

func readFile(into *[]byte, name string) (reason string) {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	*into = b
	return ""
}

// parseJAAS reads a login as Kafka's clients have it: the class of a login module under "", and its
// options, as in
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
func parseJAAS(v string) (login map[string]string, reason string) {
	rest, ends := strings.CutSuffix(strings.TrimSpace(v), ";")
	if !ends {
		return nil, "does not end with a semicolon"
	}
	class, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	flag, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if flag != "required" {
		return nil, "is not CLASS required NAME=\"VALUE\" ...;"
	}
	login = map[string]string{"": class}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, "is not CLASS required NAME=\"VALUE\" ...;"
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return nil, fmt.Sprintf("has no quoted value of %s", name)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Sprintf("has no quoted value of %s", name)
		}
		login[strings.TrimSpace(name)], rest = value, after[len(quoted):]
	}
	return login, ""
}
