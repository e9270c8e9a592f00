package kafkatest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Without other goroutines the server only counts. It still finds a goroutine left behind, also in
// a program on its main goroutine.
func TestGoroutineLeftBehindIsFoundWhereThereIsNoOther(t *testing.T) {
	for _, where := range []string{"main", "another"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), leavesBehind+"="+where)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, "left 0\nleft 1\n", string(out))
		})
	}
}

// leavesBehind names the variable of a process that runs leaveBehind instead of tests, on its main
// goroutine or on another one.
const leavesBehind = "KAFKATEST_LEAVES_BEHIND"

// leaveBehind starts and stops two servers. The second one leaves a goroutine.
func leaveBehind(where string) {
	run := func() {
		for n := range 2 {
			s := New(programT{}, Config{Pipe: true})
			for range n {
				relabelled(s.label, func() { go func() { select {} }() })
			}
			if err := s.stop(); err != nil {
				panic(err)
			}
			fmt.Printf("left %d\n", len(leaked(s.label)))
		}
	}
	if where == "main" {
		run()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	<-done
}

// A programT is a T of a program that ends its server itself.
type programT struct{}

func (programT) Helper()                       {}
func (programT) Cleanup(func())                {}
func (programT) Logf(string, ...any)           {}
func (programT) Fatalf(text string, as ...any) { panic(fmt.Sprintf(text, as...)) }

// A test has to end the goroutines that its own functions start when the server calls them.
func TestGoroutineThatAFunctionOfTheTestStartsIsNotTheBrokers(t *testing.T) {
	stop, callers := make(chan struct{}), map[string]bool{}
	defer close(stop)
	var mu sync.Mutex
	start := func(caller string) {
		mu.Lock()
		defer mu.Unlock()
		if !callers[caller] {
			callers[caller] = true
			go func() { <-stop }()
		}
	}
	f := &fakeT{}
	said := f.run(func() {
		s := New(f, Config{
			Topics:    map[string]int{"a": 1},
			Listen:    func(int32) (net.Listener, error) { start("Listen"); return net.Listen("tcp", "127.0.0.1:0") },
			Intercept: startingInterceptor(start),
		})
		s.Observe(func(*kafka.Exchange) { start("Observe") })
		s.Fault(Fault{Decide: func(*kafka.Exchange) *Effect {
			start("Decide")
			return &Effect{Edit: func(kmsg.Request, kmsg.Response) { start("Edit") }}
		}})
		s.Fault(Fault{Code: 1, Match: func(*kafka.Exchange) bool { start("Match"); return false }})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.Ping(t.Context()))
	})
	require.Empty(t, said)
	require.Len(t, callers, 7, "%v", callers)
}

// startingInterceptor is called with the name of each method that the server calls.
type startingInterceptor func(string)

func (i startingInterceptor) Before(*kafka.Exchange) kafka.Action { i("Before"); return kafka.Action{} }
func (i startingInterceptor) After(*kafka.Exchange)               { i("After") }
