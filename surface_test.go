package strata_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/topic"
)

// documentedMethods returns the methods of Cluster that its package documents.
func documentedMethods(t *testing.T) map[string]bool {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok && star.X.(*ast.Ident).Name == "Cluster" {
				require.NotEmpty(t, fn.Doc.Text(), fn.Name.Name)
				found[fn.Name.Name] = true
			}
		}
	}
	return found
}

// Every exported method of Cluster is declared and documented on it, or is part of the backends of
// producers and consumers. The other methods are behind Backend.
func TestClusterOffersWhatItsDocumentationLists(t *testing.T) {
	listed := documentedMethods(t)
	listed["MetadataVersion"] = true // an optional method of a producer's backend
	require.True(t, listed["CreateTopic"] && listed["Group"] && listed["Backup"])
	for _, i := range []reflect.Type{reflect.TypeFor[producer.TxnBackend](), reflect.TypeFor[consumer.Backend]()} {
		for m := range i.NumMethod() {
			listed[i.Method(m).Name] = true
		}
	}
	c := reflect.TypeFor[*strata.Cluster]()
	for m := range c.NumMethod() {
		require.True(t, listed[c.Method(m).Name], "%s is neither documented nor needed by clients", c.Method(m).Name)
	}
}

// Producers, consumers and servers take the Cluster itself, and Backend has the other methods.
func TestEverythingIsMadeFromAClusterInOneLine(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.EnsureTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
	require.NoError(t, err)
	require.NoError(t, g.Close())
	s := kafka.NewServer(c, kafka.Config{})
	require.NoError(t, s.Close())
	id, ok := c.Backend().TopicID("orders")
	require.True(t, ok)
	require.False(t, id.IsZero())
	p, err = producer.New(c.Backend(), producer.Config{})
	require.NoError(t, err, "the parts are a backend too")
	require.NoError(t, p.Close())
}
