package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where there is nobody else the goroutines are only counted: one that is left behind is found all
// the same, by a program on its main goroutine, too.
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

// leavesBehind is set for a process that is not to run tests, but leaveBehind on its main goroutine
// or on another one.
const leavesBehind = "KAFKATEST_LEAVES_BEHIND"

// leaveBehind starts and stops two servers, of which the second leaves a goroutine.
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

// A programT is a T of a program that looks after its server itself.
type programT struct{}

func (programT) Helper()                       {}
func (programT) Cleanup(func())                {}
func (programT) Logf(string, ...any)           {}
func (programT) Fatalf(text string, as ...any) { panic(fmt.Sprintf(text, as...)) }
