package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/vfs"
)

func (a *app) dumpCmd() *cobra.Command {
	var o dumpOptions
	c := &cobra.Command{
		Use:   "dump FILE|DIR...",
		Short: "Print the contents of the files of a log directory",
		Long: "dump prints segments, indexes, snapshots, checkpoints and the other files of a log directory of Strata or Apache Kafka. For a directory it\n" +
			"prints all such files in it and below it. The name of a file determines its format. Files are only read. Damage is printed in its place,\n" +
			"and the exit code is 1 then.\n\n" +
			"Records of __consumer_offsets, __transaction_state, __share_group_state and __cluster_metadata are decoded if the directory has that name,\n" +
			"or with --decode.",
		Example: "  strata dump data/broker-1/orders-0/00000000000000000000.log\n" +
			"  strata dump data                                            # all files\n" +
			"  strata dump -v data/broker-1/__consumer_offsets-7/*.log     # records too, decoded\n" +
			"  strata dump -v data/broker-1/__transaction_state-*/*.log   # the history of each transactional id\n" +
			"  strata dump --json data/broker-1/orders-0/* | jq 'select(.type == \"batch\") | .size'\n" +
			"  strata dump data/broker-1/*-checkpoint data/broker-1/meta.properties",
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = a.do(func(_ context.Context, args []string) error { return a.dump(args, o) })
	c.Flags().BoolVarP(&o.records, "records", "v", false, "print records too, not only batches")
	c.Flags().StringVar(&o.decode, "decode", "auto", "record format: auto (by the directory's name), offsets, transactions, shares, metadata or none")
	c.Flags().Int64Var(&o.from, "from", 0, "skip batches that end below this offset")
	c.Flags().Int64Var(&o.limit, "max-batches", 0, "stop after this many batches of each file; 0: no limit")
	return c
}

type dumpOptions struct {
	records bool
	decode  string
	from    int64
	limit   int64
}

func (a *app) dump(files []string, o dumpOptions) error {
	switch o.decode {
	case "auto", "offsets", "transactions", "shares", "metadata", "none":
	default:
		return misuse("--decode %s: must be auto, offsets, transactions, shares, metadata or none", o.decode)
	}
	files, err := a.filesOf(files)
	if err != nil {
		return err
	}
	tell, done := a.progress()
	defer done()
	if isTerminal(a.out) { // the terminal shows the output itself
		tell = func(func() string) {}
	}
	failed := false
	for i, name := range files {
		tell(func() string { return fmt.Sprintf("%d of %d files; %s", i, len(files), name) })
		if err := a.dumpFile(name, o); err != nil {
			if errors.Is(err, errMisuse) {
				return err
			}
			failed = true
			if errors.Is(err, errSilent) {
				continue
			}
			if !errors.Is(err, kafkafile.ErrDamaged) {
				a.say("%v", err)
				continue
			}
			if err := a.emit(damageLine{Type: "damage", File: name, Reason: err.Error()}); err != nil {
				return err
			}
		}
	}
	if failed {
		return errSilent
	}
	return nil
}

// filesOf returns files, with each directory replaced by the files in it that can be dumped.
func (a *app) filesOf(files []string) ([]string, error) {
	var out []string
	for _, name := range files {
		info, err := a.fs.Stat(name)
		if err != nil || !info.IsDir() { // dumpFile returns the error
			out = append(out, name)
			continue
		}
		before := len(out)
		if out, err = a.appendFiles(out, name); err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, misuse("%s: the directory has no files of a log directory", name)
		}
	}
	return out, nil
}

// appendFiles appends the files in dir and below it that can be dumped, sorted by name.
func (a *app) appendFiles(files []string, dir string) ([]string, error) {
	entries, err := a.fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if files, err = a.appendFiles(files, name); err != nil {
				return nil, err
			}
			continue
		}
		if kind, _ := kafkafile.KindOf(name); kind != kafkafile.Unknown {
			files = append(files, name)
		}
	}
	return files, nil
}

func (a *app) dumpFile(name string, o dumpOptions) (err error) {
	kind, set := kafkafile.KindOf(name)
	if kind == kafkafile.Unknown {
		return misuse("%s: not the name of a file of a log directory", name)
	}
	f, err := vfs.ReadOnly(a.fs).OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := a.emit(fileLine{"file", name, string(kind), size, set}); err != nil {
		return err
	}
	d := dumper{app: a, name: name, o: o}
	switch kind {
	case kafkafile.Log, kafkafile.MetadataSnapshot:
		return d.log(f, size)
	case kafkafile.Index, kafkafile.TimeIndex, kafkafile.TxnIndex:
		return d.index(f, size, kind)
	}
	return d.small(f, size, kind)
}

// A dumper prints one file.
type dumper struct {
	*app
	name string
	o    dumpOptions
}

// maxSmall bounds the files that are read whole, in bytes. A snapshot has 46 bytes for each
// producer: a million producers fit.
const maxSmall = 64 << 20

func readSmall(f vfs.File, size int64) ([]byte, error) {
	if size > maxSmall {
		return nil, fmt.Errorf("%w: %d bytes are too many for this type of file", kafkafile.ErrDamaged, size)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, err
	}
	return p, nil
}

type fileLine struct {
	Type string `json:"type"`
	File string `json:"file"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	Set  string `json:"suffix,omitempty"` // as ".deleted"
}

func (l fileLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s%s, %d bytes\n", l.File, l.Kind, l.Set, l.Size)
}

type damageLine struct {
	Type     string `json:"type"`
	File     string `json:"file"`
	Position *int64 `json:"position,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Reason   string `json:"reason"`
}

func (l damageLine) writeText(w io.Writer) {
	if l.Position != nil {
		fmt.Fprintf(w, "  DAMAGE at %d, %d bytes: %s\n", *l.Position, l.Size, l.Reason)
		return
	}
	fmt.Fprintf(w, "  DAMAGE: %s\n", l.Reason)
}
