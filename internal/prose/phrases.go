package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// kinds of phrases, in the order of counts.
var kinds = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"headless", regexp.MustCompile(`\b(?:[Ww]hat|[Ww]ho|[Ww]hoever|[Tt]hose (?:of|that|who)|[Tt]hat of|[Oo]ne (?:that|who|of whose))\s+(?:\w+ly\s+)?` +
		`(?:is|are|was|were|has|have|had|it|they|he|the|a|an|this|that|these|there|we|comes?|came|goes|went|waits?|waited|wants?|asks?|asked|reads?|writes?|` +
		`holds?|held|needs?|fails?|failed|does|did|do|can|cannot|could|may|must|will|would|calls?|called|gets?|got|takes?|took|knows?|lives?|died?|dies|stays?|` +
		`left|leaves|makes?|made|uses?|used|sends?|sent|stands?|follows?|joins?|joined|begins?|began|ends?|ended|serves?|served|leads?|led|owns?|owned|lacks?|` +
		`happens?|happened|nobody|somebody|others?|else)\b`)},
	{"speech", regexp.MustCompile(`\b(?:tells?|told|telling|says?|said|saying|asks?|asked|asking|hears?|heard|believes?|believed|vouch\w*|knows? of|forgets?|forgot\w*)\b`)},
	{"nobody", regexp.MustCompile(`(?i)\b(?:nobody|somebody|anybody|everybody|whoever|whomever)\b`)},
	{"odd", regexp.MustCompile(`\b(?:anew|but for|beforehand|is gone|are gone|goes? on|went on|comes? back|is over|are through|is through)\b`)},
}

// place is one occurrence of a phrase.
type place struct {
	class  string // comments, exported, errors, texts or pages
	file   string
	line   int
	kind   int // index in kinds
	phrase string
	text   string // the whole line, or the error's text
}

// found has the phrases of one or several files.
type found struct {
	places []place
	lines  map[key]int // number of lines of comments, texts and pages
}

func (f *found) add(class, name string, line int, text string) {
	f.lines[key{filepath.ToSlash(filepath.Dir(name)), class}]++
	for i, k := range kinds {
		for _, phrase := range k.pattern.FindAllString(text, -1) {
			f.places = append(f.places, place{class, name, line, i, phrase, strings.TrimSpace(text)})
		}
	}
}

// addFile adds a file's phrases. A comment of an exported identifier counts in two classes.
func (f *found) addFile(name string, src []byte) error {
	if filepath.Ext(name) == ".md" {
		fenced := false
		for i, line := range strings.Split(string(src), "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
				fenced = !fenced
			} else if !fenced && !strings.HasPrefix(line, "    ") {
				f.add("pages", name, i+1, line)
			}
		}
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	exported := exportedComments(file)
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") {
				continue
			}
			for i, line := range strings.Split(c.Text, "\n") {
				n := fset.Position(c.Pos()).Line + i
				f.add("comments", name, n, line)
				if exported[group] {
					f.add("exported", name, n, line)
				}
			}
		}
	}
	errorTexts := errorTexts(file)
	ast.Inspect(file, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		s, err := strconv.Unquote(text.Value)
		line := fset.Position(text.Pos()).Line
		switch {
		case err != nil:
		case errorTexts[text]:
			f.add("errors", name, line, s)
		case file.Name.Name == "main":
			f.add("texts", name, line, s)
		}
		return true
	})
	return nil
}

// exportedComments returns the comments that go doc shows: of the package, of exported declarations
// and of exported fields and methods in them.
func exportedComments(file *ast.File) map[*ast.CommentGroup]bool {
	shown := map[*ast.CommentGroup]bool{file.Doc: true}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				shown[d.Doc] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				exported := false
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						exported = exported || n.IsExported()
					}
					if exported {
						shown[s.Doc], shown[s.Comment] = true, true
					}
				case *ast.TypeSpec:
					if exported = s.Name.IsExported(); exported {
						shown[s.Doc], shown[s.Comment] = true, true
						ast.Inspect(s.Type, func(n ast.Node) bool {
							if f, ok := n.(*ast.Field); ok && (len(f.Names) == 0 || f.Names[0].IsExported()) {
								shown[f.Doc], shown[f.Comment] = true, true
							}
							return true
						})
					}
				}
				if exported {
					shown[d.Doc] = true
				}
			}
		}
	}
	delete(shown, nil)
	return shown
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// errorTexts returns the strings that errors.New and fmt.Errorf are called with.
func errorTexts(file *ast.File) map[*ast.BasicLit]bool {
	all := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "New" && f.Sel.Name != "Errorf" {
			return true
		}
		if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "errors" && pkg.Name != "fmt" {
			return true
		}
		if text, ok := call.Args[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
			all[text] = true
		}
		return true
	})
	return all
}
