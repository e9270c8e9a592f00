package synctest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endless makes TestEndlessBubble wait in vain.
const endless = "STRATA_ENDLESS_BUBBLE"

func TestEndlessBubble(t *testing.T) {
	mode := os.Getenv(endless)
	if mode == "" {
		t.Skip("run by TestBubblePanicsAfterAThousandVirtualHours")
	}
	wait := func() { waitInVain(make(chan bool)) }
	Test(t, func(t *testing.T) {
		if mode == "cleanup" {
			t.Cleanup(wait)
			return
		}
		wait()
	})
}

// waitInVain polls for done.
func waitInVain(done chan bool) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Minute):
		}
	}
}

func TestBubblePanicsAfterAThousandVirtualHours(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"test", "cleanup"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEndlessBubble$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), endless+"="+mode)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, mode)
		require.Contains(t, string(out), "panic: TestEndlessBubble has not ended after 1000h0m0s of virtual time", mode)
		require.Contains(t, string(out), "synctest.waitInVain(", "%s: the stack that waits", mode)
	}
}

func TestBubbleMayLastUpToItsLimit(t *testing.T) {
	t.Parallel()
	Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(MaxVirtual/2 - 1) })
		time.Sleep(MaxVirtual / 2)
	})
	TestFor(t, 2*MaxVirtual, func(*testing.T) { time.Sleep(2*MaxVirtual - 1) })
}

func TestBubblesStacksAreItsOwn(t *testing.T) {
	t.Parallel()
	done := make(chan bool)
	defer close(done)
	go waitInVain(done) // in no bubble
	Test(t, func(t *testing.T) {
		end := make(chan bool)
		defer close(end)
		go func() { <-end }()
		Wait()
		require.Contains(t, string(stacks()), "TestBubblesStacksAreItsOwn")
		require.NotContains(t, string(stacks()), "waitInVain")
	})
}
