package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayPanic lists the files with a panic, each for a broken
// invariant of our own code or because its name says so, with how many.
var mayPanic = map[string]int{
	"record/zstd.go":                     2, // options of our own out of range
	"replication/change.go":              1, // decide and apply disagree
	"replication/metasnapshot.go":        1, // likewise
	"internal/watermark/queue.go":        1, // one entry in two places
	"kafka/internal/transport/budget.go": 1, // more bytes are given back than were taken
	"kafkatest/clock_visit.go":           3, // what a visit recovers, twice; what a function of the test's has panicked with
	"kafkatest/kfake/cluster.go":         3, // MustCluster; what attempt recovers, and what it does not
	"internal/synctest/synctest.go":      1, // a test that does not end
}

// endsProcess are calls that a library has no right to, or that
// reach for what all of the process share.
var endsProcess = map[string]bool{
	"os.Exit": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true, "log.Panic": true, "log.Panicf": true,
	"slog.Default": true, "slog.SetDefault": true, "slog.Info": true, "slog.Warn": true, "slog.Error": true, "slog.Debug": true,
	"http.Handle": true, "http.HandleFunc": true, "runtime.Goexit": true,
}

// mayCall is the call that a file has a reason for.
var mayCall = map[string]string{
	"kafkatest/clock_visit.go": "runtime.Goexit", // passes on what FailNow has done to another goroutine of the test
}

// Checklist row L2: nothing ends the host's process, starts before main or is registered
// globally, and no panic waits for input.
func TestNoPackageEndsTheProcessOrActsBeforeMain(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() {
			switch name {
			case "examples", "cmd", "bench", "interop", "internal/leaktest", "internal/prose", "internal/reference", "internal/release", "internal/twins", ".git":
				// programs, and a TestMain
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			found++
			checkHygiene(t, path, name)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, found, 100, "the module's files")
}

func checkHygiene(t *testing.T, path, name string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	panics := 0
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			require.False(t, n.Recv == nil && n.Name.Name == "init", "%s has an init function", name)
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.Ident:
				if f.Name == "panic" {
					panics++
				}
			case *ast.SelectorExpr:
				if pkg, ok := f.X.(*ast.Ident); ok {
					call := pkg.Name + "." + f.Sel.Name
					require.False(t, endsProcess[call] && mayCall[name] != call, "%s calls %s", name, call)
				}
			}
		}
		return true
	})
	require.Equal(t, mayPanic[name], panics, "panics in %s", name)
}
