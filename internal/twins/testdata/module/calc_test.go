package calc

import "testing"

func TestSum(t *testing.T) {
	if Sum(2, 3) != 5 {
		t.Fatal("2 and 3 are 5")
	}
}

// TestDiff does not notice that its arguments are swapped.
func TestDiff(t *testing.T) {
	if Diff(3, 3) != 0 {
		t.Fatal("3 less 3 is 0")
	}
}

func TestWait(t *testing.T) {
	c := make(chan struct{})
	close(c)
	Wait(c)
}

func TestFailsAnyway(t *testing.T) {
	t.Fatal("always")
}
