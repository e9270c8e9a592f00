package remote_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

const (
	plainLogin = `org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="se\"cret";`
	scramLogin = `org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="se\"cret" ;`
)

func TestPropertiesOfAJavaClientOpenASecureCluster(t *testing.T) {
	for mechanism, login := range map[string]string{"PLAIN": plainLogin, "SCRAM-SHA-256": scramLogin, "SCRAM-SHA-512": scramLogin} {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprint(mechanism, ", certificates in the properties: ", inline), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					a, err := throwaway.New()
					require.NoError(t, err)
					cert, err := a.Certificate(throwaway.Request{Hosts: []string{"127.0.0.1"}})
					require.NoError(t, err)
					w := newWorld(t, 1, 1, kafka.Config{Security: kafka.Security{
						TLS: &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert},
						SASL: &kafka.SASL{
							Scram: []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512},
							Plain: kafka.StaticPasswords(map[string]string{"ada": `se"cret`}),
						},
					}})
					require.NoError(t, w.local.SetPassword(t.Context(), "ada", `se"cret`))
					cfg := remote.Config{Dial: w.cfg.Dial, Properties: certificates(t, a, dir, inline)}
					maps.Copy(cfg.Properties, map[string]string{
						"bootstrap.servers": w.cfg.Brokers[0] + ", 127.0.0.1:1", "client.id": "java", "request.timeout.ms": "5000", "metadata.max.age.ms": "60000",
						"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": login,
					})
					c, err := remote.Open(t.Context(), cfg)
					require.NoError(t, err)
					fill(t, c, 10)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// certificates returns the properties of the authority's and a client's certificate.
func certificates(t *testing.T, a *throwaway.Authority, dir string, inline bool) map[string]string {
	own, err := a.Certificate(throwaway.Request{Subject: pkix.Name{CommonName: "client"}})
	require.NoError(t, err)
	chain, key, err := throwaway.PEM(own)
	require.NoError(t, err)
	if inline {
		return map[string]string{
			"ssl.truststore.certificates": string(a.PEM()), "ssl.keystore.certificate.chain": string(chain), "ssl.keystore.key": string(key),
			"ssl.endpoint.identification.algorithm": "https",
		}
	}
	ca, store := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "own.pem")
	require.NoError(t, os.WriteFile(ca, a.PEM(), 0o600))
	require.NoError(t, os.WriteFile(store, slices.Concat(key, chain), 0o600))
	return map[string]string{"ssl.truststore.type": "PEM", "ssl.truststore.location": ca, "ssl.keystore.type": "PEM", "ssl.keystore.location": store}
}

func TestBadPropertiesAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		cfg remote.Config
		key string
	}{
		"unknown":                   {remote.Config{Properties: map[string]string{"bootstrap.server": "x:1"}}, "bootstrap.server"},
		"of a producer":             {remote.Config{Properties: map[string]string{"acks": "all"}}, "acks"},
		"another address":           {remote.Config{Brokers: []string{"x:1"}, Properties: map[string]string{"bootstrap.servers": "y:1"}}, "bootstrap.servers"},
		"another client id":         {remote.Config{ClientID: "a", Properties: map[string]string{"client.id": "b"}}, "client.id"},
		"no number":                 {remote.Config{Properties: map[string]string{"request.timeout.ms": "5s"}}, "request.timeout.ms"},
		"another timeout":           {remote.Config{RequestTimeout: time.Second, Properties: map[string]string{"request.timeout.ms": "5000"}}, "request.timeout.ms"},
		"a timeout out of range":    {remote.Config{Brokers: []string{"x:1"}, Properties: map[string]string{"request.timeout.ms": "5"}}, "RequestTimeout"},
		"no protocol":               {remote.Config{Properties: map[string]string{"security.protocol": "TLS"}}, "security.protocol"},
		"TLS without its protocol":  {remote.Config{Properties: map[string]string{"ssl.truststore.certificates": "x"}}, "security.protocol"},
		"no TLS with a TLS field":   {remote.Config{TLS: &tls.Config{}, Properties: map[string]string{"security.protocol": "PLAINTEXT"}}, "security.protocol"},
		"TLS twice":                 {remote.Config{TLS: &tls.Config{}, Properties: map[string]string{"security.protocol": "SSL", "ssl.truststore.certificates": "x"}}, "TLS"},
		"no certificate":            {remote.Config{Properties: map[string]string{"security.protocol": "SSL", "ssl.truststore.certificates": "x"}}, "ssl.truststore"},
		"no key":                    {remote.Config{Properties: map[string]string{"security.protocol": "SSL", "ssl.keystore.key": "secret"}}, "ssl.keystore"},
		"no file":                   {remote.Config{Properties: map[string]string{"security.protocol": "SSL", "ssl.truststore.location": "/none"}}, "ssl.truststore.location"},
		"a Java key store":          {remote.Config{Properties: map[string]string{"ssl.keystore.type": "JKS"}}, "ssl.keystore.type"},
		"names are not checked":     {remote.Config{Properties: map[string]string{"ssl.endpoint.identification.algorithm": ""}}, "ssl.endpoint.identification.algorithm"},
		"SASL without its protocol": {remote.Config{Properties: map[string]string{"sasl.mechanism": "PLAIN"}}, "security.protocol"},
		"no mechanism":              {remote.Config{Properties: map[string]string{"security.protocol": "SASL_SSL", "sasl.jaas.config": plainLogin}}, "sasl.mechanism"},
		"an unknown mechanism":      {remote.Config{Properties: map[string]string{"sasl.mechanism": "GSSAPI"}}, "sasl.mechanism"},
		"no login":                  {remote.Config{Properties: map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}}, "sasl.jaas.config"},
		"another login module":      {remote.Config{Properties: map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": scramLogin}}, "sasl.jaas.config"},
		"no semicolon":              {remote.Config{Properties: map[string]string{"sasl.jaas.config": `a required password="secret"`}}, "sasl.jaas.config"},
		"not required":              {remote.Config{Properties: map[string]string{"sasl.jaas.config": `a optional password="secret";`}}, "sasl.jaas.config"},
		"no quotes":                 {remote.Config{Properties: map[string]string{"sasl.jaas.config": `a required password=secret;`}}, "sasl.jaas.config"},
		"no value":                  {remote.Config{Properties: map[string]string{"sasl.jaas.config": `a required username="x" secret;`}}, "sasl.jaas.config"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := remote.Open(t.Context(), c.cfg)
			var refused *topic.ConfigError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.key, refused.Key)
			require.False(t, strings.Contains(err.Error(), "secret"), err)
		})
	}
}
