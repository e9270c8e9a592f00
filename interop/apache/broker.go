package apache

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Broker is a running Kafka, of one node or of a cluster.
type Broker struct {
	Addr string // HOST:PORT
	Dir  string // its log directory: TOPIC-N and checkpoint files
	kit  *Kit
	home string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Start starts a broker that keeps everything below home, which it formats if it is new, and
// returns when it accepts connections. settings are lines for its server.properties.
func (k *Kit) Start(ctx context.Context, home string, settings ...string) (*Broker, error) {
	return k.StartAt(ctx, home, nil, settings...)
}

// StartAt is Start for a broker that, if it is new, has features at other levels than Kafka's
// defaults, as "transaction.version=1".
func (k *Kit) StartAt(ctx context.Context, home string, features []string, settings ...string) (*Broker, error) {
	controller, err := freePort()
	if err != nil {
		return nil, err
	}
	return k.start(ctx, node{id: 1, home: home, cluster: newClusterID(), controller: controller, features: features}, settings)
}

// A Listener is an additional listener of a broker.
type Listener struct {
	Name     string
	Protocol string // as in listener.security.protocol.map
	Addr     string // HOST:PORT, of StartListening
}

// StartListening is Start for a broker with further listeners, whose addresses it fills in.
// settings have their security, at listener.name.NAME.
func (k *Kit) StartListening(ctx context.Context, home string, more []Listener, settings ...string) (*Broker, error) {
	controller, err := freePort()
	if err != nil {
		return nil, err
	}
	for i := range more {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		more[i].Addr = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return k.start(ctx, node{id: 1, home: home, cluster: newClusterID(), controller: controller, more: more}, settings)
}

// StartCluster starts n brokers with the ids 1 to n, each in its own rack, rack1 to rackN. Broker 1
// is the controller. They keep everything below home, which is new. On error none runs.
func (k *Kit) StartCluster(ctx context.Context, home string, n int, settings ...string) ([]*Broker, error) {
	controller, err := freePort()
	if err != nil {
		return nil, err
	}
	var brokers []*Broker
	cluster := newClusterID()
	for id := 1; id <= n; id++ {
		of := node{id: id, home: filepath.Join(home, fmt.Sprint(id)), cluster: cluster, controller: controller}
		b, err := k.start(ctx, of, append([]string{fmt.Sprintf("broker.rack=rack%d", id)}, settings...))
		if err != nil {
			for _, b := range brokers {
				b.Stop()
			}
			return nil, err
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// A node has the settings in which a broker differs from others of its cluster.
type node struct {
	id         int
	home       string
	cluster    string // the id of the cluster
	controller int    // the port of the controller, which broker 1 is
	features   []string
	more       []Listener
}

func newClusterID() string {
	var id [16]byte
	rand.Read(id[:])
	// an id that begins with a dash would be read as an option; Kafka's Uuid.randomUuid avoids it
	// too
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func (k *Kit) start(ctx context.Context, n node, settings []string) (*Broker, error) {
	b := &Broker{kit: k, home: n.home, Dir: filepath.Join(n.home, "log")}
	if err := os.MkdirAll(n.home, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	roles, controls := "broker", ""
	if n.id == 1 {
		roles, controls = "broker,controller", fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", n.controller)
	}
	more, protocols := "", ""
	for _, l := range n.more {
		more += fmt.Sprintf(",%s://%s", l.Name, l.Addr)
		protocols += fmt.Sprintf(",%s:%s", l.Name, l.Protocol)
	}
	config := filepath.Join(n.home, "server.properties")
	text := fmt.Sprintf(properties, roles, n.id, n.controller, n.controller, port, controls+more, port, more, protocols, b.Dir) + strings.Join(settings, "\n")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "meta.properties")); err != nil {
		args := []string{"kafka.tools.StorageTool", "format", "-t", n.cluster, "-c", config}
		for _, f := range n.features {
			args = append(args, "--feature", f)
		}
		format := k.Java(ctx, args...)
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("apache: format: %w: %s", err, bytes.TrimSpace(out))
		}
	}
	return b, b.run(ctx, config)
}

// properties is the format of a broker's server.properties. The first rebalance of a group does not
// wait for further members.
const properties = `process.roles=%s
node.id=%d
controller.quorum.bootstrap.servers=127.0.0.1:%d
controller.quorum.voters=1@127.0.0.1:%d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%d%s
advertised.listeners=PLAINTEXT://127.0.0.1:%d%s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT%s
log.dirs=%s
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

// portsGiven are the ports that freePort has returned. A broker binds its port only seconds later,
// and until then the system may return the same port again.
var portsGiven sync.Map

// freePort returns a port without a listener, a different one each time.
func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, err
		}
		if _, again := portsGiven.LoadOrStore(port, true); !again {
			return port, nil
		}
	}
}

func (b *Broker) run(ctx context.Context, config string) error {
	out, err := os.OpenFile(filepath.Join(b.home, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	b.cmd = exec.Command("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", b.kit.classpath, "kafka.Kafka", config)
	b.cmd.Stdout, b.cmd.Stderr = out, out
	if err := b.cmd.Start(); err != nil {
		return err
	}
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		b.cmd.Wait() // its output shows how it ended
	}()
	for {
		if c, err := net.DialTimeout("tcp", b.Addr, time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-b.done:
			log, _ := os.ReadFile(out.Name())
			return fmt.Errorf("apache: the broker ended: %s", log[max(0, len(log)-4000):])
		case <-ctx.Done():
			b.Stop()
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() {
	b.cmd.Process.Kill()
	<-b.done
}

// Restart starts a broker again that was killed or stopped, at the same address, and returns when
// it accepts connections.
func (b *Broker) Restart(ctx context.Context) error {
	return b.run(ctx, filepath.Join(b.home, "server.properties"))
}

// Stop stops the broker cleanly, and returns when it has ended.
func (b *Broker) Stop() {
	b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.done:
	case <-time.After(30 * time.Second):
		b.cmd.Process.Kill()
		<-b.done
	}
}
