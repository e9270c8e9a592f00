package commandtable

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachJobHasACheck(t *testing.T) {
	rows, err := Parse(Jobs)
	require.NoError(t, err)
	require.Len(t, rows, len(checks))
	for _, r := range rows {
		require.Contains(t, checks, r.Job)
		require.NotEmpty(t, r.Cells["strata"], r.Job)
	}
}

// A cell of the page is the command that the tests run for the job and the tool.
func TestPageShowsCommandsThatTestsRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/commands.md")
	require.NoError(t, err)
	cells := func(line string) []string {
		all := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		return all
	}
	run := map[string][]string{}
	for line := range strings.SplitSeq(Jobs, "\n") {
		if c := cells(line); len(c) == 1+len(Columns) {
			run[c[0]] = c
		}
	}
	var tools []string
	shown := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		c := cells(line)
		switch {
		case !strings.HasPrefix(line, "| "):
		case c[0] == "job":
			tools = c
		default:
			require.Len(t, c, len(tools), line)
			require.Contains(t, run, c[0])
			for i := 1; i < len(c); i++ {
				require.Equal(t, run[c[0]][slices.Index(run["job"], tools[i])], c[i], "%s, %s", c[0], tools[i])
				shown++
			}
		}
	}
	require.Greater(t, shown, 20)
}

func TestPagesThatCannotBeRunAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"| a | - | - |":                  "line 1: 3 cells",
		"| a | - | - | strata x |":       `"strata x" is neither a dash nor a command`,
		"| a | - | - | `strata x |":      "is neither",
		"| a | - | - | `x` or `y` |":     "is neither",
		"| a | - | - | - |\n| a |-|-|-|": `line 2: "a" is there twice`,
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
	}
	rows, err := Parse("text\n\n| job | kcat | Kafka | strata |\n|---|---|---|---|\n| a | `x \\| y` (so) | - | `z` |\n")
	require.NoError(t, err)
	require.Equal(t, []Row{{"a", map[string]string{"kcat": "x | y", "Kafka": "", "strata": "z"}}}, rows)
}

func TestACommandThatDoesNotDoItsJobIsTold(t *testing.T) {
	s := &Session{Column: "strata", Addr: "here:1", Dir: t.TempDir()}
	for command, want := range map[string]string{
		"exit 3":          "exit status 3",
		"echo nothing":    `printed "nothing\n", not`,
		"false | echo ok": "exit status 1",
	} {
		told := errors.New("nobody told")
		err := s.Run(t.Context(), []Row{{"list topics", map[string]string{"strata": command}}, {"unheard of", nil}}, func(_ string, err error) { told = err })
		require.ErrorContains(t, told, want)
		require.ErrorContains(t, err, "list topics: ")
		require.ErrorContains(t, err, "unheard of: nothing checks it")
		require.ErrorContains(t, err, "list groups: the page does not have it")
	}
	require.NoError(t, s.job(t.Context(), "echo localhost:9092", check{says: "^here:1\n$", look: "pwd", shows: s.Dir}))
	require.ErrorContains(t, s.job(t.Context(), "true", check{look: "echo x", shows: "y"}), `and then echo x shows "x\n", not "y"`)
}

func TestStrataDoesWhatAToolHasNoCommandFor(t *testing.T) {
	s := &Session{Column: "kcat", Dir: t.TempDir()}
	told := []string{}
	_ = s.Run(t.Context(), []Row{
		{"create a topic", map[string]string{"strata": "echo made > made"}}, // others build on it
		{"list groups", map[string]string{"strata": "echo looked > looked"}},
	}, func(job string, err error) { told = append(told, job) })
	require.Empty(t, told)
	require.FileExists(t, s.Dir+"/made")
	require.NoFileExists(t, s.Dir+"/looked")
}
