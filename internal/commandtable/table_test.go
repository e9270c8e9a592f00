package commandtable

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageHasACheckForEachJob(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	rows, err := Parse(string(page))
	require.NoError(t, err)
	require.Len(t, rows, len(checks))
	for _, r := range rows {
		require.Contains(t, checks, r.Job)
		require.NotEmpty(t, r.Cells["strata"], r.Job)
	}
}

func TestPagesThatCannotBeRunAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"| a | - | - | - |":                    "line 1: 4 cells",
		"| a | - | - | - | strata x |":         `"strata x" is neither a dash nor a command`,
		"| a | - | - | - | `strata x |":        "is neither",
		"| a | - | - | - | `x` or `y` |":       "is neither",
		"| a | - | - | - | - |\n| a |-|-|-|-|": `line 2: "a" is there twice`,
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
	}
	rows, err := Parse("text\n\n| job | kcat | rpk | Kafka | strata |\n|---|---|---|---|---|\n| a | `x \\| y` (so) | - | - | `z` |\n")
	require.NoError(t, err)
	require.Equal(t, []Row{{"a", map[string]string{"kcat": "x | y", "rpk": "", "Kafka": "", "strata": "z"}}}, rows)
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
