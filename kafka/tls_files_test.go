package kafka

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/throwaway"
)

// certFiles are the files of a server's certificate, its key and the authority of its clients.
type certFiles struct {
	t    testing.TB
	file TLSFiles
}

func newCertFiles(t testing.TB, a *throwaway.Authority, name string) *certFiles {
	dir := t.TempDir()
	f := &certFiles{t, TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}}
	f.write(a, name)
	return f
}

// write replaces the files with a new certificate, its key and its authority.
func (f *certFiles) write(a *throwaway.Authority, name string) {
	cert, key, err := throwaway.PEM(certificate(f.t, a, throwaway.Request{Subject: pkix.Name{CommonName: name}, Hosts: []string{"broker.invalid"}}))
	require.NoError(f.t, err)
	f.put(f.file.Cert, cert)
	f.put(f.file.Key, key)
	f.put(f.file.ClientCA, a.PEM())
}

func (f *certFiles) put(name string, data []byte) {
	require.NoError(f.t, os.WriteFile(name, data, 0o600))
}

// shake makes a handshake and returns the name of the server's certificate.
func shake(t *testing.T, cfg, client *tls.Config) (server string, err error) {
	near, far := memnet.Pipe(memnet.Addr("a:1"), memnet.Addr("b:1"))
	defer near.Close()
	defer far.Close()
	served := make(chan error, 1)
	go func() { served <- tls.Server(far, cfg).Handshake() }()
	peer := tls.Client(near, client)
	if err := peer.Handshake(); err != nil {
		far.Close()
		<-served
		return "", err
	}
	return peer.ConnectionState().PeerCertificates[0].Subject.CommonName, <-served
}

func TestCertificatesAreReadAgainWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := authority(t), authority(t)
		files := newCertFiles(t, a, "first")
		cfg, err := files.file.Config()
		require.NoError(t, err)
		require.NoError(t, Security{TLS: cfg}.check())
		require.True(t, Security{TLS: cfg}.authenticates())
		of := func(x *throwaway.Authority) *tls.Config {
			return &tls.Config{RootCAs: x.Pool(), ServerName: "broker.invalid", Certificates: []tls.Certificate{certificate(t, x, throwaway.Request{Subject: pkix.Name{CommonName: "client"}})},
				ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		}
		clientA, clientB := of(a), of(b)
		name, err := shake(t, cfg, clientA)
		require.NoError(t, err)
		require.Equal(t, "first", name)

		files.write(a, "second")
		time.Sleep(lookEvery)
		name, err = shake(t, cfg, clientA)
		require.NoError(t, err)
		require.Equal(t, "second", name)

		good, err := os.ReadFile(files.file.Key)
		require.NoError(t, err)
		for _, broken := range []string{"", "no key", string(good[:len(good)/2])} {
			files.put(files.file.Key, []byte(broken))
			time.Sleep(lookEvery)
			name, err = shake(t, cfg, clientA)
			require.NoError(t, err, "what was read before is used")
			require.Equal(t, "second", name)
		}
		require.NoError(t, os.Remove(files.file.Key))
		time.Sleep(lookEvery)
		_, err = shake(t, cfg, clientA)
		require.NoError(t, err)

		files.write(b, "third") // the new authority rejects the former clients, even resumed ones
		time.Sleep(lookEvery)
		name, err = shake(t, cfg, clientB)
		require.NoError(t, err)
		require.Equal(t, "third", name)
		clientA.RootCAs = b.Pool()
		_, err = shake(t, cfg, clientA)
		require.Error(t, err)
	})
}

func TestFilesThatAreNoCertificatesAreRefused(t *testing.T) {
	a := authority(t)
	for name, spoil := range map[string]func(f *certFiles){
		"no certificate":  func(f *certFiles) { f.put(f.file.Cert, []byte("x")) },
		"another's key":   func(f *certFiles) { g := newCertFiles(t, a, "other"); f.file.Key = g.file.Key },
		"no authority":    func(f *certFiles) { f.put(f.file.ClientCA, nil) },
		"missing":         func(f *certFiles) { f.file.Cert += "x" },
		"a directory":     func(f *certFiles) { f.file.Cert = filepath.Dir(f.file.Cert) },
		"optional nobody": func(f *certFiles) { f.file.ClientCA, f.file.ClientCertOptional = "", true },
		"huge":            func(f *certFiles) { require.NoError(t, os.Truncate(f.file.ClientCA, maxPEM+1)) },
	} {
		f := newCertFiles(t, a, "server")
		spoil(f)
		_, err := f.file.Config()
		require.Error(t, err, name)
	}
}
