package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stratalog/strata/kafka"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

// A mapping is one line of the server's table from Go errors to codes.
type mapping struct {
	pkg, name string // "" and a description for errors that no sentinel stands for
	code      kafka.Code
	text      string // of the error, without the package's name
}

// structural are the errors that the server recognises by their type.
var structural = []mapping{
	{"", "`*topic.ConfigError`", kafka.InvalidConfig, "a value of a configuration key is not accepted"},
	{"", "`*fs.PathError`", kafka.KafkaStorageError, "a file cannot be read or written"},
	{"", "`*log.CorruptError`, `log.ErrMissingSegment`", kafka.KafkaStorageError, "a file is damaged or missing"},
	{"", "`log.ErrReadOnly`, `log.ErrClosed`", kafka.KafkaStorageError, "the log does not accept changes"},
	{"", "`partition.ErrCorrupt`, `record.ErrShort`", kafka.CorruptMessage, "a batch of a request is damaged"},
	{"", "any other error", kafka.UnknownServerError, "the server logs the error"},
}

// errorCodes returns the page of the codes that errors of the packages have on the wire.
func errorCodes(root string) (string, error) {
	all, err := mappings(root)
	if err != nil {
		return "", err
	}
	all = append(all, structural...)
	slices.SortStableFunc(all, func(a, b mapping) int { return int(a.code) - int(b.code) })
	var b strings.Builder
	b.WriteString("# Errors and their codes\n" + generated + `
Match an error with ` + "`errors.Is` or `errors.As`" + `. On the wire the first row that fits gives the code. Kafka's clients send a
request again after a code with *retry*. Authorization, authentication and malformed requests have Kafka's codes too; no
Go error stands for them.

| number | code | retry | Go error | when |
|--:|---|---|---|---|
`)
	for _, m := range all {
		retry := ""
		if kerr.IsRetriable(kerr.ErrorForCode(int16(m.code))) {
			retry = "retry"
		}
		name := m.name
		if m.pkg != "" {
			name = code(m.pkg + "." + m.name)
		}
		row(&b, number(int64(m.code)), m.code.String(), retry, name, m.text)
	}
	return b.String(), nil
}

// mappings reads the table errorCodes of package kafka. Errors of internal packages and of the
// standard library are left out.
func mappings(root string) ([]mapping, error) {
	codes, err := constants(filepath.Join(root, "kafka", "codes.go"))
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "kafka", "errors.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{} // directory of a package of the module, by its name
	for _, imp := range file.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if rest, ours := strings.CutPrefix(path, "github.com/stratalog/strata/"); ours && !strings.HasPrefix(rest, "internal/") {
			dirs[filepath.Base(rest)] = rest
		}
	}
	var all []mapping
	var failed error
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "errorCodes" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			r := e.(*ast.CompositeLit)
			sentinel := r.Elts[0].(*ast.SelectorExpr)
			pkg, name := sentinel.X.(*ast.Ident).Name, sentinel.Sel.Name
			if dirs[pkg] == "" {
				continue
			}
			text, err := sentinelText(root, dirs[pkg], name)
			if err != nil {
				failed = err
			}
			all = append(all, mapping{pkg, name, codes[r.Elts[1].(*ast.Ident).Name], text})
		}
		return false
	})
	if len(all) == 0 && failed == nil {
		failed = fmt.Errorf("kafka/errors.go has no table errorCodes")
	}
	return all, failed
}

// constants returns the codes that a file declares, by name.
func constants(path string) (map[string]kafka.Code, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	codes := map[string]kafka.Code{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			value := spec.Values[0]
			sign := int64(1)
			if minus, ok := value.(*ast.UnaryExpr); ok {
				sign, value = -1, minus.X
			}
			if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.INT {
				n, _ := strconv.ParseInt(lit.Value, 10, 16)
				codes[spec.Names[0].Name] = kafka.Code(sign * n)
			}
		}
		return true
	})
	return codes, nil
}

// sentinelText returns the text of the error name of the package at path, without the package's
// name. An error that is another package's under a second name has that one's text.
func sentinelText(root, path, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, path, "*.go"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			return "", err
		}
		for _, value := range values(file, name) {
			switch v := value.(type) {
			case *ast.CallExpr: // errors.New("package: text"), or a wrapped error with a text
				for _, arg := range v.Args {
					if lit, ok := arg.(*ast.BasicLit); ok {
						text, _ := strconv.Unquote(lit.Value)
						_, text, _ = strings.Cut(text, ": ")
						return text, nil
					}
				}
			case *ast.SelectorExpr: // errors of another package
				for _, imp := range file.Imports {
					from, _ := strconv.Unquote(imp.Path.Value)
					if filepath.Base(from) == v.X.(*ast.Ident).Name {
						return sentinelText(root, strings.TrimPrefix(from, "github.com/stratalog/strata/"), v.Sel.Name)
					}
				}
			}
		}
	}
	return "", fmt.Errorf("%s.%s has no text that can be read", path, name)
}

// values returns the expressions that a file gives to the variable of that name.
func values(file *ast.File, name string) []ast.Expr {
	var all []ast.Expr
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, ident := range spec.Names {
				if ident.Name == name && i < len(spec.Values) {
					all = append(all, spec.Values[i])
				}
			}
		}
		return true
	})
	return all
}
