package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
)

func TestClientsAuthenticateWithTheUsersOfTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Brokers: 2, TLS: true, Users: map[string]string{"alice": "secret"}, Topics: map[string]int{"orders": 4}})
		try := func(m sasl.Mechanism) error {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.DialTLS(s.TLS())), kgo.SASL(m), kgo.DefaultProduceTopic("orders"), kgo.RecordDeliveryTimeout(5*time.Second))
			require.NoError(t, err)
			defer cl.Close()
			for range 8 {
				if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
					return err
				}
			}
			return nil
		}
		token := kafka.NewUnsecuredJWTForTests("carol", time.Now().Add(time.Hour))
		for range 2 {
			require.NoError(t, try(plain.Auth{User: "alice", Pass: "secret"}.AsMechanism()))
			require.NoError(t, try(scram.Auth{User: "alice", Pass: "secret"}.AsSha256Mechanism()))
			require.NoError(t, try(scram.Auth{User: "alice", Pass: "secret"}.AsSha512Mechanism()))
			require.NoError(t, try(oauth.Auth{Token: token}.AsMechanism()))
			require.Error(t, try(plain.Auth{User: "alice", Pass: "wrong"}.AsMechanism()))
			require.Error(t, try(scram.Auth{User: "bob", Pass: "secret"}.AsSha512Mechanism()))
			s.Restart() // certificates and users stay
		}
	})
}

func TestClientsOfATestShowCertificates(t *testing.T) {
	s := New(t, Config{ClientCerts: true, Topics: map[string]int{"orders": 1}})
	try := func(opts ...kgo.Opt) error {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic("orders"), kgo.RetryTimeout(time.Second), kgo.RecordDeliveryTimeout(2*time.Second))...)
		require.NoError(t, err)
		defer cl.Close()
		return cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr()
	}
	require.NoError(t, try(kgo.DialTLSConfig(s.TLS("alice"))))
	require.Error(t, try(kgo.DialTLSConfig(s.TLS())))
	require.Error(t, try())
	require.Len(t, s.Topic("orders"), 1)
	require.Nil(t, New(t, Config{Pipe: true}).TLS("alice"))
}
