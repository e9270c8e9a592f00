package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureImports are the packages of the standard library that a package without side effects may
// import.
var pureImports = []string{"bytes", "cmp", "container/heap", "crypto/hmac", "crypto/pbkdf2", "crypto/sha256", "crypto/sha512", "crypto/subtle", "encoding/base64", "encoding/asn1", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "iter", "maps", "math", "net/netip", "regexp", "slices", "strconv", "strings", "time", "unicode/utf16", "unicode/utf8", "github.com/cespare/xxhash/v2"}

// impureTime are the parts of package time that read the clock or wait.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// pureValues is the record package, which is lower and allowed for its values. A pure package
// calls none of its functions that read or wait.
var pureValues = "record"

// pureNames are the names that a pure package may use of other packages of the module that are not
// pure.
var pureNames = map[string][]string{"topic": {"CollisionKey", "ErrInvalidName", "ID", "IsInternal", "ValidateName"}}

func TestPurePackagesOnlyCompute(t *testing.T) {
	imports := ourImports(t)
	for _, pkg := range Pure {
		require.Contains(t, imports, pkg)
		for _, imp := range imports[pkg] {
			require.True(t, imp == pureValues || pureNames[imp] != nil || slices.Contains(Pure, imp), "%s is pure and imports %s", pkg, imp)
		}
		dir := filepath.Join("..", "..", filepath.FromSlash(pkg))
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range files {
			if name := f.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
				require.NoError(t, err)
				for _, complaint := range impurities(file) {
					t.Errorf("%s/%s: %s", pkg, name, complaint)
				}
			}
		}
	}
}

// impurities returns descriptions of the code in a file that does more than compute.
func impurities(file *ast.File) (found []string) {
	names := map[string][]string{} // permitted names, by package
	for _, imp := range file.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if ours, ok := strings.CutPrefix(path, module+"/"); ok && pureNames[ours] != nil {
			names[ours] = pureNames[ours]
		}
		if !strings.HasPrefix(path, module) && !slices.Contains(pureImports, path) {
			found = append(found, "imports "+path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "starts a goroutine")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			found = append(found, "uses a channel")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(impureTime, n.Sel.Name) {
				found = append(found, "calls time."+n.Sel.Name)
			} else if ok && names[pkg.Name] != nil && !slices.Contains(names[pkg.Name], n.Sel.Name) {
				found = append(found, "uses "+pkg.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestImpuritiesAreSeen(t *testing.T) {
	for source, want := range map[string]string{
		`import "sync"`:                     "imports sync",
		`import "context"`:                  "imports context",
		`import "os"`:                       "imports os",
		`import "math/rand/v2"`:             "imports math/rand/v2",
		`import "time"; var x = time.Now()`: "calls time.Now",
		`import "time"; var x = time.Now`:   "calls time.Now",
		`import "github.com/stratalog/strata/topic"; var x = topic.NewID()`: "uses topic.NewID",
		`var c chan int`:         "uses a channel",
		`func f() { go f() }`:    "starts a goroutine",
		`func f() { select {} }`: "uses a channel",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+source, parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Equal(t, []string{want}, impurities(file), source)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x; import "time"; var x time.Duration = time.Second`, parser.SkipObjectResolution)
	require.NoError(t, err)
	require.Empty(t, impurities(file))
}
