package half

import "testing"

func TestOf(t *testing.T) {
	t.Run("even", func(t *testing.T) {
		if Of(4) != 2 {
			t.Fatal("half of 4")
		}
	})
	t.Run("odd", func(t *testing.T) {
		if Of(5) != 2 {
			t.Fatal("half of 5")
		}
	})
}
