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

// mayPanic lists the number of panics by file. Each is for a broken invariant of this code, or its
// name announces it.
var mayPanic = map[string]int{
	"record/zstd.go":                     2, // internal options out of range
	"replication/change.go":              1, // decide and apply disagree
	"replication/metasnapshot.go":        1, // as above
	"internal/watermark/queue.go":        1, // one entry in two places
	"kafka/internal/transport/budget.go": 1, // more bytes are given back than were taken
	// a recovered panic of a visit, twice; a panic of the test's function
	"kafkatest/clock_visit.go": 3,
	// MustCluster; a panic that attempt recovers, and a panic that it does not
	"kafkatest/kfake/cluster.go":    3,
	"internal/synctest/synctest.go": 1, // a test that does not end
}

// endsProcess are calls that a library must not make, or that use state which the whole process
// shares.
var endsProcess = map[string]bool{
	"os.Exit": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true, "log.Panic": true, "log.Panicf": true,
	"slog.Default": true, "slog.SetDefault": true, "slog.Info": true, "slog.Warn": true, "slog.Error": true, "slog.Debug": true,
	"http.Handle": true, "http.HandleFunc": true, "runtime.Goexit": true,
}

// mayCall is the call that a file may make.
var mayCall = map[string]string{
	// repeats FailNow's exit of another goroutine of the test
	"kafkatest/clock_visit.go": "runtime.Goexit",
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
