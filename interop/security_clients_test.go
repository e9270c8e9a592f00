package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	rdkafka "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	kafkago "github.com/segmentio/kafka-go"
	kafkagosasl "github.com/segmentio/kafka-go/sasl"
	kafkagoplain "github.com/segmentio/kafka-go/sasl/plain"
	kafkagoscram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdgscram "github.com/xdg-go/scram"
)

// patience is the time limit of a client that must not be served.
const patience = 5 * time.Second

func init() {
	secureClients["franz-go"] = franzLogsIn
	secureClients["sarama"] = saramaLogsIn
	secureClients["kafka-go"] = kafkaGoLogsIn
	secureClients["librdkafka"] = rdLogsIn
	secureClients["java"] = javaLogins.logIn
	secureClients["kafkajs"] = jsLogins.logIn
}

// A loginProgram is a client in another language. One process makes all logins of a test, because
// starting it costs seconds.
type loginProgram struct {
	command func(t *testing.T) *exec.Cmd

	mu      sync.Mutex
	in      io.Writer
	last    int
	waiting map[int]chan<- string
	output  syncBuffer // its other output
}

var javaLogins = &loginProgram{command: func(t *testing.T) *exec.Cmd {
	source, err := filepath.Abs("java/Logins.java")
	require.NoError(t, err)
	return kafkaKit(t).Java(context.Background(), source)
}}

var jsLogins = &loginProgram{command: func(t *testing.T) *exec.Cmd {
	need(t, "node", "npm")
	dir, err := installJS()
	require.NoError(t, err)
	return exec.Command("node", filepath.Join(dir, "logins.js"))
}}

// start starts the program, until the tests end. p.mu is held.
func (p *loginProgram) start(t *testing.T) {
	cmd := p.command(t)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = &p.output
	require.NoError(t, cmd.Start())
	p.in, p.waiting = in, map[int]chan<- string{}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			number, became, _ := strings.Cut(s.Text(), " ")
			n, err := strconv.Atoi(number)
			p.mu.Lock()
			if told := p.waiting[n]; err == nil && told != nil {
				told <- became
			} else {
				fmt.Fprintln(&p.output, s.Text())
			}
			p.mu.Unlock()
		}
		ended := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.in = nil
		for _, told := range p.waiting {
			select {
			case told <- fmt.Sprintf("%v: %s", ended, p.output.bytes()):
			default: // its result has arrived
			}
		}
	}()
}

// logIn has the program connect.
func (p *loginProgram) logIn(t *testing.T, l login) string {
	told := make(chan string, 1)
	p.mu.Lock()
	if p.in == nil {
		p.start(t)
	}
	p.last++
	p.waiting[p.last] = told
	fields := []string{strconv.Itoa(p.last), l.addr, l.mechanism, l.user, l.password, l.ca, l.certificate, l.topic, l.group, strconv.Itoa(l.writes), strconv.FormatBool(l.token)}
	fmt.Fprintln(p.in, strings.Join(fields, "\t"))
	p.mu.Unlock()
	select {
	case became := <-told:
		return became
	case <-within(t).Done():
		return "nothing: " + string(p.output.bytes())
	}
}

// franzAs returns a client of a login, which is closed at the end of the test.
func franzAs(t *testing.T, l login) *kgo.Client {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(l.addr), kgo.DefaultProduceTopic(l.topic), kgo.ConsumeTopics(l.topic), kgo.ConsumerGroup(l.group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordDeliveryTimeout(patience), kgo.RetryTimeout(patience), kgo.RequestRetries(3)}
	if l.ca != "" {
		opts = append(opts, kgo.DialTLSConfig(tlsOf(t, l)))
	}
	switch l.mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: l.user, Pass: l.password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: l.user, Pass: l.password, IsToken: l.token}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: l.user, Pass: l.password, IsToken: l.token}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		opts = append(opts, kgo.SASL(oauth.Auth{Token: l.password}.AsMechanism()))
	}
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func franzLogsIn(t *testing.T, l login) string {
	cl := franzAs(t, l)
	become := func(err error) string {
		switch {
		case errors.Is(err, kerr.SaslAuthenticationFailed), strings.Contains(err.Error(), "unexpected data in oauth response"):
			return notAuthenticated
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed),
			errors.Is(err, kerr.ClusterAuthorizationFailed): // an idempotent producer needs Write
			return notAuthorized
		}
		return unconnected(err)
	}
	// The producer waits for metadata until patience has passed, and its error has no cause.
	if err := cl.Ping(within(t)); err != nil {
		return become(err)
	}
	for i := range l.writes {
		if err := cl.ProduceSync(within(t), &kgo.Record{Value: value(i)}).FirstErr(); err != nil {
			return become(err)
		}
		pause(l)
	}
	for n := 0; n < l.writes; {
		fetches := cl.PollFetches(within(t))
		if err := fetches.Err(); err != nil {
			return become(err)
		}
		n += fetches.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(within(t)); err != nil {
		return become(err)
	}
	offsets, err := kadm.NewClient(cl).FetchOffsets(within(t), l.group)
	if err != nil {
		return become(err)
	}
	at, _ := offsets.Lookup(l.topic, 0)
	require.EqualValues(t, l.writes, at.At)
	return served
}

// pause waits between two records of a long login.
func pause(l login) {
	if l.writes > 10 {
		time.Sleep(100 * time.Millisecond)
	}
}

// unconnected returns notConnected if err is from a failed connection, else the error's text.
func unconnected(err error) string {
	text := err.Error()
	var op *net.OpError
	if errors.As(err, &op) {
		return notConnected
	}
	for _, of := range []string{"tls:", "x509:", "EOF", "reset by peer", "broken pipe", "closed by", "TLS is missing", "is TLS missing", "speaking to a tls endpoint"} {
		if strings.Contains(text, of) {
			return notConnected
		}
	}
	return text
}

// xdg is the SCRAM client from sarama's own examples.
type xdg struct {
	hash xdgscram.HashGeneratorFcn
	*xdgscram.ClientConversation
}

func (x *xdg) Begin(user, password, authz string) error {
	c, err := x.hash.NewClient(user, password, authz)
	if err == nil {
		x.ClientConversation = c.NewConversation()
	}
	return err
}

type bearer string

func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

func saramaLogsIn(t *testing.T, l login) string {
	c := saramaConfig()
	c.Metadata.Retry.Max, c.Producer.Retry.Max = 1, 2
	// Commits wait behind fetches on its one connection.
	c.Consumer.MaxWaitTime = 50 * time.Millisecond
	if l.ca != "" {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, tlsOf(t, l)
	}
	if l.mechanism != "" {
		c.Net.SASL.Enable, c.Net.SASL.Mechanism, c.Net.SASL.User, c.Net.SASL.Password = true, sarama.SASLMechanism(l.mechanism), l.user, l.password
		c.Net.SASL.TokenProvider = bearer(l.password)
		hash := xdgscram.SHA256
		if l.mechanism == sarama.SASLTypeSCRAMSHA512 {
			hash = xdgscram.SHA512
		}
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &xdg{hash: hash} }
	}
	become := func(err error) string {
		switch {
		case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
			return notAuthenticated
		case errors.Is(err, sarama.ErrTopicAuthorizationFailed), errors.Is(err, sarama.ErrGroupAuthorizationFailed):
			return notAuthorized
		}
		return unconnected(err)
	}
	cl, err := sarama.NewClient([]string{l.addr}, c)
	if err != nil {
		return become(err)
	}
	defer cl.Close()
	p, err := sarama.NewSyncProducerFromClient(cl)
	if err != nil {
		return become(err)
	}
	for i := range l.writes {
		if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: l.topic, Value: sarama.ByteEncoder(value(i))}); err != nil {
			return become(err)
		}
		pause(l)
	}
	g, err := sarama.NewConsumerGroupFromClient(l.group, cl)
	if err != nil {
		return become(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	h := &saramaCounts{want: l.writes, done: cancel}
	if err := g.Consume(ctx, []string{l.topic}, h); err != nil {
		return become(err)
	}
	require.Equal(t, l.writes, h.got)
	return served
}

// A saramaCounts is a handler that commits each record, and calls done after enough of them.
type saramaCounts struct {
	want, got int
	done      func()
}

func (*saramaCounts) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*saramaCounts) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *saramaCounts) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		s.MarkMessage(m, "")
		s.Commit()
		if h.got++; h.got == h.want {
			h.done()
		}
	}
	return nil
}

// kafkaGoToken implements OAUTHBEARER, which kafka-go leaves to its users.
type kafkaGoToken string

func (kafkaGoToken) Name() string { return "OAUTHBEARER" }

func (k kafkaGoToken) Start(context.Context) (kafkagosasl.StateMachine, []byte, error) {
	return k, []byte("n,,\x01auth=Bearer " + string(k) + "\x01\x01"), nil
}

func (kafkaGoToken) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) > 0 {
		// The challenge has the error; this answer ends the exchange (RFC 7628).
		return false, []byte{1}, nil
	}
	return true, nil, nil
}

func kafkaGoLogsIn(t *testing.T, l login) string {
	var m kafkagosasl.Mechanism
	var err error
	switch l.mechanism {
	case "PLAIN":
		m = kafkagoplain.Mechanism{Username: l.user, Password: l.password}
	case "SCRAM-SHA-256":
		m, err = kafkagoscram.Mechanism(kafkagoscram.SHA256, l.user, l.password)
	case "SCRAM-SHA-512":
		m, err = kafkagoscram.Mechanism(kafkagoscram.SHA512, l.user, l.password)
	case "OAUTHBEARER":
		m = kafkaGoToken(l.password)
	}
	require.NoError(t, err)
	dialer := &kafkago.Dialer{SASLMechanism: m, Timeout: 10 * time.Second}
	transport := &kafkago.Transport{SASL: m}
	defer transport.CloseIdleConnections()
	if l.ca != "" {
		dialer.TLS, transport.TLS = tlsOf(t, l), tlsOf(t, l)
	}
	become := func(err error) string {
		switch {
		case errors.Is(err, kafkago.SASLAuthenticationFailed):
			return notAuthenticated
		case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.GroupAuthorizationFailed):
			return notAuthorized
		}
		return unconnected(err)
	}
	w := &kafkago.Writer{Addr: kafkago.TCP(l.addr), Topic: l.topic, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, Transport: transport, MaxAttempts: 3}
	defer w.Close()
	for i := range l.writes {
		var errs kafkago.WriteErrors
		err := w.WriteMessages(within(t), kafkago.Message{Value: value(i)})
		if errors.As(err, &errs) {
			err = errors.Join(errs...)
		}
		if err != nil {
			return become(err)
		}
		pause(l)
	}
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{l.addr}, GroupTopics: []string{l.topic}, GroupID: l.group, StartOffset: kafkago.FirstOffset, Dialer: dialer, MaxWait: 200 * time.Millisecond})
	defer r.Close()
	for range l.writes {
		m, err := r.FetchMessage(within(t))
		if err == nil {
			err = r.CommitMessages(within(t), m)
		}
		if err != nil {
			return become(err)
		}
	}
	return served
}

func rdLogsIn(t *testing.T, l login) string {
	conf := rdkafka.ConfigMap{"bootstrap.servers": l.addr, "security.protocol": "plaintext", "log_level": 0}
	set := func(key string, v rdkafka.ConfigValue) { require.NoError(t, conf.SetKey(key, v)) }
	var protocol string
	if l.mechanism != "" {
		protocol = "sasl_"
		set("sasl.mechanisms", l.mechanism)
		set("sasl.username", l.user)
		set("sasl.password", l.password)
	}
	if l.ca != "" {
		protocol += "ssl"
		set("ssl.ca.location", l.ca)
	} else {
		protocol += "plaintext"
	}
	set("security.protocol", protocol)
	if l.certificate != "" {
		set("ssl.certificate.location", l.certificate)
		set("ssl.key.location", l.certificate)
	}
	become := func(err rdkafka.Error) string {
		switch err.Code() {
		case rdkafka.ErrAuthentication, rdkafka.ErrSaslAuthenticationFailed:
			return notAuthenticated
		case rdkafka.ErrTopicAuthorizationFailed, rdkafka.ErrGroupAuthorizationFailed:
			return notAuthorized
		case rdkafka.ErrSsl, rdkafka.ErrTransport, rdkafka.ErrAllBrokersDown:
			return notConnected
		}
		return fmt.Sprintf("%v: %v", err.Code(), err)
	}
	produce := rdkafka.ConfigMap{}
	for k, v := range conf {
		produce[k] = v
	}
	p, err := rdkafka.NewProducer(&produce)
	require.NoError(t, err)
	defer p.Close()
	refresh := func(c interface {
		SetOAuthBearerToken(rdkafka.OAuthBearerToken) error
	}) {
		require.NoError(t, c.SetOAuthBearerToken(rdkafka.OAuthBearerToken{TokenValue: l.password, Expiration: time.Now().Add(time.Hour), Principal: l.user}))
	}
	if l.mechanism == "OAUTHBEARER" {
		refresh(p)
	}
	acks := make(chan rdkafka.Event, 1)
	for i := range l.writes {
		require.NoError(t, p.Produce(&rdkafka.Message{TopicPartition: rdkafka.TopicPartition{Topic: &l.topic}, Value: value(i)}, acks))
		for acked := false; !acked; {
			select {
			case e := <-acks:
				if err := e.(*rdkafka.Message).TopicPartition.Error; err != nil {
					return become(err.(rdkafka.Error))
				}
				acked = true
			case e := <-p.Events(): // errors of its connections, which it retries forever
				if err, ok := e.(rdkafka.Error); ok {
					if err.Code() == rdkafka.ErrAllBrokersDown && l.writes > 10 {
						continue
					}
					return become(err)
				}
			}
		}
		pause(l)
	}
	consume := rdkafka.ConfigMap{"group.id": l.group, "auto.offset.reset": "earliest", "enable.auto.commit": false}
	for k, v := range conf {
		consume[k] = v
	}
	c, err := rdkafka.NewConsumer(&consume)
	require.NoError(t, err)
	defer c.Close()
	if l.mechanism == "OAUTHBEARER" {
		refresh(c)
	}
	require.NoError(t, c.Subscribe(l.topic, nil))
	for range l.writes {
		m, err := c.ReadMessage(30 * time.Second)
		if err == nil {
			_, err = c.CommitMessage(m)
		}
		if err != nil {
			return become(err.(rdkafka.Error))
		}
	}
	return served
}
