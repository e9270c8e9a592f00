package kafkatest

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// secure creates the authority and the brokers' certificate, if the Config has TLS.
func (s *Server) secure() (err error) {
	if !s.cfg.TLS && !s.cfg.ClientCerts {
		return nil
	}
	if s.authority, err = throwaway.New(); err != nil {
		return err
	}
	hosts := []string{"127.0.0.1", "localhost"}
	for id := range maxBrokers {
		hosts = append(hosts, fmt.Sprintf("broker-%d.kafkatest.invalid", id+1))
	}
	s.cert, err = s.authority.Certificate(throwaway.Request{Subject: pkix.Name{CommonName: "kafkatest"}, Hosts: hosts})
	return err
}

// security returns the security configuration of the listeners.
func (s *Server) security(cluster *strata.Cluster) (sec kafka.Security) {
	if s.authority != nil {
		sec.TLS = &tls.Config{Certificates: []tls.Certificate{s.cert}, ClientCAs: s.authority.Pool(), ClientAuth: tls.VerifyClientCertIfGiven}
		if s.cfg.ClientCerts {
			sec.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	if s.cfg.Users != nil {
		sec.SASL = &kafka.SASL{
			Plain: kafka.ClusterPasswords(cluster), Scram: []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512},
			OAuthBearer: kafka.UnsecuredJWTForTests{},
		}
	}
	return sec
}

// createUsers sets the passwords of the Config's users, except of users that already have one.
func (s *Server) createUsers(ctx context.Context, cluster *strata.Cluster) error {
	there := cluster.ScramUsers()
	for _, user := range slices.Sorted(maps.Keys(s.cfg.Users)) {
		if len(there[user]) > 0 {
			continue
		}
		if err := cluster.SetPassword(ctx, user, s.cfg.Users[user]); err != nil {
			return err
		}
	}
	return nil
}

// TLS returns a client configuration for a Server with Config.TLS or ClientCerts: its authority,
// and for each of users a certificate with the name CN=user. The caller owns it. It is nil without
// TLS. It fails the test if a certificate cannot be created.
func (s *Server) TLS(users ...string) *tls.Config {
	s.t.Helper()
	if s.authority == nil {
		return nil
	}
	cfg := &tls.Config{RootCAs: s.authority.Pool()}
	for _, user := range users {
		cert, err := s.authority.Certificate(throwaway.Request{Subject: pkix.Name{CommonName: user}})
		if err != nil {
			s.t.Fatalf("kafkatest: certificate of %s: %v", user, err)
		}
		cfg.Certificates = append(cfg.Certificates, cert)
	}
	return cfg
}

// DialTLS returns a dial function for TLS connections with cfg, which comes from TLS. The function
// returns after the handshake. DialTLS fails the test if cfg is nil, as it is without TLS.
func (s *Server) DialTLS(cfg *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	s.t.Helper()
	if cfg == nil {
		s.t.Fatalf("kafkatest: DialTLS: cfg is nil, as what TLS returns is unless Config.TLS or ClientCerts is set")
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := s.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := cfg.Clone()
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		secured := tls.Client(nc, own)
		if err := secured.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		return secured, nil
	}
}
