package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The edit breaks the build of another test.
func TestOtherTestsAreNotCompiled(t *testing.T) {
	root := copyModule(t, "row 1\nbreaks sums\ntest calc.TestSum\nfile calc.go\n-\tc := a + b\n+\tc := a - b\n@@\n-func Diff(a, b int) int {\n+func less(a, b int) int {\n")
	out, err := twins(t, root)
	require.NoError(t, err, out)
	require.Contains(t, out, "caught 1, survivors 0, broken 0")
}

func TestTestThatNeedsAnotherIsCompiledWithIt(t *testing.T) {
	root := copyModule(t, strings.Replace(goodTwin, "calc.TestSum", "calc.TestSum, calc.TestSumAgain", 1))
	require.NoError(t, os.WriteFile(filepath.Join(root, "again_test.go"), []byte(`package calc

import "testing"

func TestSumAgain(t *testing.T) { TestSum(t); TestDiff(t) }
`), 0o644))
	out, err := twins(t, root)
	require.NoError(t, err, out)
	require.Contains(t, out, "caught 1, survivors 0, broken 0")
}

func TestFileKeepsEverythingButOtherTests(t *testing.T) {
	const whole = `package calc

import (
	"fmt"
	"math/rand/v2"
	"os"
	x "strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func init() { rand.Int() }

// TestOne is kept.
func TestOne(t *testing.T) { helper() }

// TestTwo goes.
func TestTwo(t *testing.T) {
	fmt.Println(x.ToUpper("a"))
}

func BenchmarkOne(b *testing.B) { helper() }

func (s suite) TestThree() {}

func Testify() {}

func helper() {}
`
	const want = `package calc

import (
	_ "fmt"
	"math/rand/v2"
	"os"
	_ "strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func init() { rand.Int() }

// TestOne is kept.
func TestOne(t *testing.T) { helper() }

// TestTwo goes.






func (s suite) TestThree() {}

func Testify() {}

func helper() {}
`
	got, err := leanFile([]byte(whole), map[string]bool{"TestOne": true})
	require.NoError(t, err)
	lines := strings.Split(string(got), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	require.Equal(t, want, strings.Join(lines, "\n"))
}
