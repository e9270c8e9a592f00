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

// explained has texts for errors whose own text is too short for the page.
var explained = map[string]string{
	"acl.ErrInvalid":                        "the access control entry or filter is invalid",
	"group.ErrClosed":                       "the coordinator is closed; also `transaction.ErrClosed`, `share.ErrClosed`",
	"group.ErrCoordinatorNotAvailable":      "there is no coordinator now; also an error of packages transaction and share",
	"group.ErrIllegalGeneration":            "the member has another generation than the group: it must join again",
	"group.ErrInvalidRequest":               "the request of a group member is invalid",
	"group.ErrInvalidSessionTimeout":        "session timeout out of the broker's range",
	"group.ErrNotCoordinator":               "another broker is the coordinator; also an error of packages transaction and share",
	"group.ErrOffsetMetadataTooLarge":       "metadata of a committed offset is above offset.metadata.max.bytes",
	"group.ErrRebalanceInProgress":          "the group rebalances: the member must join again",
	"group.ErrUnknownMember":                "unknown member id: the member must join again with a new one",
	"group.ErrUnknownTopicOrPartition":      "a group's request names an unknown topic or partition",
	"log.ErrRecordTooLarge":                 "batch is larger than log.Config.MaxBatchBytes, or than a segment",
	"partition.ErrBatchTooLarge":            "batch is larger than segment.bytes",
	"partition.ErrClosed":                   "the partition is closed: its topic was deleted, or its broker stops",
	"partition.ErrCoordinatorFenced":        "transaction marker of an older coordinator epoch",
	"partition.ErrFencedLeaderEpoch":        "the request's leader epoch is older than the partition's",
	"partition.ErrInconsistentTopicID":      "directory or reader belongs to another topic of the same name",
	"partition.ErrInvalidAcks":              "acks is none of 0, 1 and all",
	"partition.ErrInvalidProducerEpoch":     "the batch has an older epoch than its producer",
	"partition.ErrInvalidTimestamp":         "timestamp outside of message.timestamp.before.max.ms and message.timestamp.after.max.ms",
	"partition.ErrInvalidTxnState":          "the write does not belong to the producer's open transaction",
	"partition.ErrNotLeader":                "the replica does not lead; nothing was appended",
	"partition.ErrNotLeaderAfterAppend":     "the replica lost the leadership during the append; the records may be kept",
	"partition.ErrOffsetNotAvailable":       "a new leader does not know the high watermark yet",
	"partition.ErrOffsetOutOfRange":         "the offset is below the log start offset, or above the end",
	"partition.ErrOutOfOrderSequence":       "a gap in the sequence, or a retry older than the producer's last five batches",
	"partition.ErrPolicyViolation":          "DeleteRecords on a topic that is only compacted",
	"partition.ErrProducerIDMapping":        "transactional id of a batch is unknown or has another producer id",
	"partition.ErrRecordTooLarge":           "batch is larger than max.message.bytes",
	"partition.ErrTxnAbortable":             "the partition is not in the transaction, which can only be aborted",
	"partition.ErrUnknownLeaderEpoch":       "the request's leader epoch is newer than the partition's",
	"record.ErrInvalidRecord":               "a record or batch of a request is invalid",
	"replication.ErrClosed":                 "the cluster is closed",
	"replication.ErrDuplicateResource":      "a request changes a user's credential twice",
	"replication.ErrMetadataReadOnly":       "too few copies of the metadata work; the change may have happened",
	"replication.ErrRecordsMissing":         "the directory of a partition is missing or was replaced",
	"replication.ErrResourceNotFound":       "the credential to delete does not exist",
	"replication.ErrUnacceptableCredential": "the user's name is empty, or iterations are not 4096 to 16384",
	"replication.ErrUnsupportedMechanism":   "unknown SCRAM mechanism of a credential",
	"share.ErrFencedLeaderEpoch":            "a newer leader of the partition has written the share-partition's state",
	"share.ErrFencedStateEpoch":             "the share-partition's state has a newer state epoch",
	"transaction.ErrConcurrent":             "the coordinator still works on the transaction before",
	"transaction.ErrInvalidTimeout":         "transaction timeout is below 1 ms or above transaction.max.timeout.ms",
	"transaction.ErrProducerFenced":         "a newer producer has the transactional id; INVALID_PRODUCER_EPOCH for old clients",
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
Match an error with ` + "`errors.Is` or `errors.As`" + `. If an error matches several rows, the order in ` + "`kafka/errors.go`" + ` decides
on its code. Kafka's clients send a request again after a code with *retry*. Authorization, authentication and malformed
requests have Kafka's codes too; no Go error stands for them.

| number | code | retry | Go error | when |
|--:|---|---|---|---|
`)
	for _, m := range all {
		retry := ""
		if m.code == kafka.ConcurrentTransactions || kerr.IsRetriable(kerr.ErrorForCode(int16(m.code))) { // kerr lacks it
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
			if more := explained[pkg+"."+name]; more != "" {
				text = more
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
						if _, rest, ok := strings.Cut(text, ": "); ok {
							text = rest
						}
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
