package kafkatest

import (
	"runtime"
	"slices"
	"strings"
)

// ownStack returns the stack of the caller.
func ownStack() string {
	buf := make([]byte, 64<<10)
	return string(buf[:runtime.Stack(buf, false)])
}

// bubbleOf returns the name of a goroutine's bubble in the first line of its stack.
func bubbleOf(stack string) string {
	head, _, _ := strings.Cut(stack, "\n")
	_, name, _ := strings.Cut(head, "synctest bubble ")
	number, _, _ := strings.Cut(name, "]")
	return "synctest bubble " + number + "]"
}

// stacks returns the stacks of the goroutines of the bubble, except for the one that runs its
// timers.
func (c *clock) stacks() []string {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	return slices.DeleteFunc(strings.Split(string(buf[:n]), "\n\n"), func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(head, c.bubble) || strings.Contains(head, "[synctest.Run")
	})
}

// stuck returns the stacks of the goroutines in the bubble that wait for something outside while
// the gate sleeps, so that time cannot move. It returns "" while any goroutine in the bubble runs
// or waits for a file, because such a goroutine continues by itself.
func (c *clock) stuck() string {
	if !c.asleep.Load() {
		return ""
	}
	var waiting []string
	for _, stack := range c.stacks() {
		_, state, _ := strings.Cut(stack, "[")
		state, _, _ = strings.Cut(state, "]")
		state, _, _ = strings.Cut(state, ",")
		switch {
		case strings.HasSuffix(state, "(durable)"):
		case strings.HasPrefix(state, "chan "), strings.HasPrefix(state, "select"), strings.HasPrefix(state, "sync."):
			waiting = append(waiting, stack)
		default:
			return ""
		}
	}
	return joinStacks(waiting)
}

func joinStacks(stacks []string) string { return strings.Join(stacks, "\n\n") }
