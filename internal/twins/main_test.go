package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is a module with a checklist and twins of every kind.
var module = filepath.Join("testdata", "module")

// twins runs the command on a directory and returns its output.
func twins(t *testing.T, root string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), append([]string{"-root", root}, args...), &out)
	return out.String(), err
}

func TestTwinsThatAreNoticedAreCaught(t *testing.T) {
	out, err := twins(t, module, "-area", "caught", "-v")
	require.NoError(t, err, out)
	require.Equal(t, 3, strings.Count(out, "caught in "), out)
	require.Regexp(t, `caught\.txt:2  row 1, promise: two and three are five: a sum is a difference`, out)
	require.Contains(t, out, "by a timeout, as it says", "the one that says that it hangs")
	require.Contains(t, out, "rows 4, twins 3, caught 3, survivors 0, broken 0")
}

func TestTwinWhoseTestPassesIsASurvivor(t *testing.T) {
	out, err := twins(t, module, "-row", "2")
	require.ErrorIs(t, err, errSurvivors)
	require.Contains(t, out, "SURVIVED in ")
	require.Contains(t, out, "calc.TestDiff passes")
	require.Contains(t, out, "rows 1, twins 1, caught 0, survivors 1, broken 0")
}

// A test that fails only every other time is distinguished from a test that always fails.
func TestTwinThatIsCaughtByChanceIsWeak(t *testing.T) {
	root := copyModule(t, strings.Replace(goodTwin, "calc.TestSum", "calc.TestSum, calc.TestByChance", 1))
	name := filepath.Join(root, "chance_test.go")
	require.NoError(t, os.WriteFile(name, []byte(`package calc

import (
	"os"
	"testing"
)

func TestByChance(t *testing.T) {
	if os.Mkdir("chance", 0o755) == nil {
		return
	}
	if Sum(2, 3) != 5 {
		t.Fatal("2 and 3 are 5")
	}
}
`), 0o644))
	out, err := twins(t, root, "-tries", "2")
	require.NoError(t, err, out)
	require.Contains(t, out, "WEAK: caught by try 2 only: caught in ")
	require.Contains(t, out, "caught 1, survivors 0, broken 0")
	require.Contains(t, out, "1 were noticed by chance")
	for count, want := range map[string]string{"1": "calc.TestByChance passes", "3": "calc.TestByChance passes 1 of 3 times"} {
		require.NoError(t, os.Remove(filepath.Join(root, "chance")))
		out, err = twins(t, root, "-count", count)
		require.ErrorIs(t, err, errSurvivors)
		require.Contains(t, out, "SURVIVED in ")
		require.Contains(t, out, want+"\n")
	}
}

func TestBrokenTwinsAreNotCaught(t *testing.T) {
	out, err := twins(t, module, "-area", "broken,gone", "-j", "1")
	require.ErrorIs(t, err, errSurvivors)
	lines := strings.Split(out, "\n")
	for want, breaks := range map[string]string{
		"does not build in":  "row 1: the sum is nowhere used",
		"fails without it":   "row D1: a sum is a difference, says",
		"times out in":       "row 3: nobody is woken",
		"does not apply in ": "row 1: a line that is not there",
	} {
		found := false
		for _, l := range lines {
			found = found || strings.HasPrefix(l, want) && strings.Contains(l, breaks)
		}
		require.True(t, found, "%s ... %s in\n%s", want, breaks, out)
	}
	require.Contains(t, out, "caught 0, survivors 0, broken 4")
}

func TestCheckRunsNothingAndFindsWhatDoesNotFit(t *testing.T) {
	out, err := twins(t, module, "-check")
	require.ErrorContains(t, err, `gone.txt:4: calc.go: 0 places read "c := b + a"`)
	require.NotContains(t, err.Error(), "caught.txt")
	require.Contains(t, out, "8 twins; 6 rows name a test, 1 of them have no twin\nmissing: D2\n")
}

// copyModule returns a copy of the module with one file of twins, which has the text src.
func copyModule(t *testing.T, src string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS(module)))
	dir := filepath.Join(root, filepath.FromSlash(rowsDir))
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(src), 0o644))
	return root
}

const goodTwin = "row 1\nbreaks sums\ntest calc.TestSum\nfile calc.go\n-\tc := a + b\n+\tc := a - b\n"

func TestStrictCheckRefusesRowsWithoutATwin(t *testing.T) {
	out, err := twins(t, copyModule(t, goodTwin), "-check")
	require.NoError(t, err)
	require.Contains(t, out, "1 twins; 6 rows name a test, 5 of them have no twin\nmissing: 2 3 4 D1 D2\n")
	_, err = twins(t, copyModule(t, goodTwin), "-check", "-strict")
	require.ErrorContains(t, err, "5 rows have no twin")
}

func TestCheckComplainsOfTwinsThatProveNothing(t *testing.T) {
	edit := "file calc.go\n-\tc := a + b\n+\tc := a - b\n"
	for name, c := range map[string]struct{ src, want string }{
		"unknown row":          {"row 99\nbreaks x\ntest calc.TestSum\n" + edit, "the checklist has no row 99"},
		"no row at all":        {"row q1\nbreaks x\ntest calc.TestSum\n" + edit, `"q1" is no row`},
		"test of another row":  {"row 2\nbreaks x\ntest calc.TestSum\n" + edit, "row 2 of the checklist names none of"},
		"test is not there":    {"row 1\nbreaks x\ntest calc.TestSum, calc.TestNo\n" + edit, "calc.TestNo does not exist"},
		"package is not there": {"row 1\nbreaks x\ntest calc.TestSum, no.TestNo\n" + edit, "no package no has tests"},
		"no sentence":          {"row 1\ntest calc.TestSum\n" + edit, "no sentence after breaks"},
		"no test":              {"row 1\nbreaks x\n" + edit, "no test"},
		"no edit":              {"row 1\nbreaks x\ntest calc.TestSum\n", "no edit"},
		"nothing changes":      {"row 1\nbreaks x\ntest calc.TestSum\nfile calc.go\n-\ta\n+\ta\n", "an edit changes nothing"},
		"no place":             {"row 1\nbreaks x\ntest calc.TestSum\nfile calc.go\n+\ta\n", "a line to take away or to keep"},
		"several places":       {"row 1\nbreaks x\ntest calc.TestSum\nfile calc.go\n-}\n+\n", "3 places read"},
		"not Go afterwards":    {"row 1\nbreaks x\ntest calc.TestSum\nfile calc.go\n-\treturn c\n+\treturn (\n", "with the edit"},
		"edits a test":         {"row 1\nbreaks x\ntest calc.TestSum\nfile calc_test.go\n-a\n+b\n", "is no Go file"},
		"leaves the module":    {"row 1\nbreaks x\ntest calc.TestSum\nfile ../calc.go\n-a\n+b\n", "is no Go file"},
		"unknown word":         {"row 1\nbraeks x\n", `"braeks" is none of`},
		"hangs for nothing":    {"row 1\nbreaks x\ntest calc.TestSum\nhangs -1s\n" + edit, "hangs wants a duration"},
		"edit without a twin":  {edit, `"file" before the first row`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := twins(t, copyModule(t, c.src), "-check")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestSampleIsChosenBySeed(t *testing.T) {
	var src strings.Builder
	for range 20 {
		src.WriteString(goodTwin + "\n")
	}
	tr, err := readTree(module)
	require.NoError(t, err)
	all, err := parse("a", src.String())
	require.NoError(t, err)
	sample := func(seed uint64) []*twin {
		chosen, err := tr.choose(t.Context(), all, options{sample: 5, seed: seed})
		require.NoError(t, err)
		return chosen
	}
	require.Len(t, sample(1), 5)
	require.Equal(t, sample(1), sample(1))
	require.NotEqual(t, sample(1), sample(2))
	chosen, err := tr.choose(t.Context(), all, options{})
	require.NoError(t, err)
	require.Equal(t, all, chosen, "without -sample all of them")
}

func TestChangedSelectsByCodeTestsAndText(t *testing.T) {
	second := strings.ReplaceAll(goodTwin, "sums", "sums again")
	half := "row 4\nbreaks halves\ntest half.TestOf\nfile half/half.go\n-return n / 2\n+return n / 3\n"
	root := copyModule(t, goodTwin+"\n"+half)
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	changed := func() []string {
		tr, err := readTree(root)
		require.NoError(t, err)
		all, err := readRows(filepath.Join(root, filepath.FromSlash(rowsDir)))
		require.NoError(t, err)
		chosen, err := tr.choose(t.Context(), all, options{changed: "HEAD"})
		require.NoError(t, err)
		var names []string
		for _, c := range chosen {
			names = append(names, c.breaks)
		}
		return names
	}
	addTo := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(root, filepath.FromSlash(name)), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = io.WriteString(f, text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "all")
	require.Empty(t, changed())
	addTo("half/half.go", "\n")
	require.Equal(t, []string{"halves"}, changed())
	git("commit", "-q", "-a", "-m", "code")
	addTo("calc_test.go", "\n")
	require.Equal(t, []string{"sums"}, changed())
	git("commit", "-q", "-a", "-m", "test")
	addTo(rowsDir+"/a.txt", "\n"+second)
	require.Equal(t, []string{"sums again"}, changed())
}
