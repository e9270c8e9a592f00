package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// TLSFiles configures TLS of a listener from PEM files. The files may be replaced while it is
// served, to renew certificates. They are checked once a second while clients connect; after a
// change, new handshakes use the new contents. While the files cannot be read, or key and
// certificate do not match, the former contents stay in use. Existing connections stay open.
type TLSFiles struct {
	Cert, Key string // files of the server's certificate, followed by its chain, and of its key
	// ClientCA is the file of the authorities of clients' certificates. Empty means that clients
	// need no certificates.
	ClientCA string
	// ClientCertOptional accepts clients without a certificate, as User:ANONYMOUS. It needs a
	// ClientCA; with a ClientCA alone certificates are required. Kafka: ssl.client.auth=requested.
	ClientCertOptional bool
	// Logger receives messages about files that were read again or cannot be read. nil discards
	// them.
	Logger *slog.Logger
}

// lookEvery is the least time between two checks of the files.
const lookEvery = time.Second

// Config reads the files and returns the configuration for Security.TLS.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	if f.ClientCertOptional && f.ClientCA == "" {
		return nil, fmt.Errorf("%w: ClientCertOptional without a ClientCA", ErrInvalidSecurity)
	}
	w := &tlsFiles{TLSFiles: f}
	read, err := f.read()
	if err != nil {
		return nil, err
	}
	cfg, err := read.config(f)
	if err != nil {
		return nil, err
	}
	w.read, w.looked = read, time.Now()
	w.current.Store(cfg)
	outer := cfg.Clone() // has ClientAuth, which the methods of Security read
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.latest(), nil }
	return outer, nil
}

// tlsFiles caches the contents and configuration of TLSFiles.
type tlsFiles struct {
	TLSFiles
	current atomic.Pointer[tls.Config] // immutable

	mu     sync.Mutex // guards the fields below; taken by TryLock only, so that no handshake waits
	looked time.Time
	read   pemFiles // contents that current was built from
	failed string   // last error of the files, which is logged once; empty if none
}

// latest returns the configuration for the next handshake.
func (w *tlsFiles) latest() *tls.Config {
	if w.mu.TryLock() {
		defer w.mu.Unlock()
		if now := time.Now(); now.Sub(w.looked) >= lookEvery {
			w.looked = now
			w.look()
		}
	}
	return w.current.Load()
}

// look reads the files again.
func (w *tlsFiles) look() {
	read, err := w.TLSFiles.read()
	if err == nil && read.equal(w.read) {
		w.failed = ""
		return
	}
	var cfg *tls.Config
	if err == nil {
		cfg, err = read.config(w.TLSFiles)
	}
	if err != nil {
		if why := err.Error(); why != w.failed {
			w.failed = why
			w.Logger.Warn("new certificates cannot be used: the former ones are", "cert", w.Cert, "err", err)
		}
		return
	}
	w.read, w.failed = read, ""
	w.current.Store(cfg)
	w.Logger.Info("certificates were read again", "cert", w.Cert, "not_after", cfg.Certificates[0].Leaf.NotAfter)
}

// pemFiles has the contents of the files. Contents are compared instead of modification times,
// because a file may change twice within their resolution.
type pemFiles struct{ cert, key, clientCA []byte }

func (f TLSFiles) read() (p pemFiles, err error) {
	var errs [3]error
	p.cert, errs[0] = readPEM(f.Cert)
	p.key, errs[1] = readPEM(f.Key)
	if f.ClientCA != "" {
		p.clientCA, errs[2] = readPEM(f.ClientCA)
	}
	return p, errors.Join(errs[:]...)
}

// maxPEM bounds the size of a certificate file, which may be any file by mistake.
const maxPEM = 4 << 20

func readPEM(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPEM {
		return nil, fmt.Errorf("%s has %d bytes, more than certificates have", name, info.Size())
	}
	return os.ReadFile(name)
}

func (p pemFiles) equal(q pemFiles) bool {
	return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) && bytes.Equal(p.clientCA, q.clientCA)
}

// config builds a configuration. It has new keys for session tickets: a client that was accepted
// with the former authorities must send its certificate again.
func (p pemFiles) config(f TLSFiles) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if f.ClientCA == "" {
		return cfg, nil
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(p.clientCA) {
		return nil, fmt.Errorf("%s: no certificate is in it", f.ClientCA)
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if f.ClientCertOptional {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return cfg, nil
}
