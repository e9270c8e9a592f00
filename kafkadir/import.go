package kafkadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/vfs"
)

// ImportConfig configures Import.
type ImportConfig struct {
	// From has all log directories of one Kafka broker: those in its log.dirs, and its
	// metadata.log.dir if that is another one.
	From []string
	// Dir is the directory of the cluster to create. It must not exist, or must be empty.
	Dir string
	// Topics has the names of the topics to import; none means all. Internal topics, which have the
	// offsets of groups and the states of transactions, are always imported.
	Topics []string
	// AllowMissing continues if partitions are missing, or may be incomplete, because they are on
	// other brokers or in log directories that are not in From. In the new cluster they are empty,
	// or end where this broker's replica does. Groups may have committed offsets after that end.
	AllowMissing bool

	FS         vfs.FS         // the file system of all directories; nil means the operating system's
	OnProgress func(Progress) // called after each file, by one goroutine at a time; may be nil

	workers int // number of partitions copied concurrently; 0 means 8
}

// Import creates a cluster of one broker, which strata.Open opens, from the log directories of a
// Kafka broker that is not running. The broker may have been shut down cleanly or killed; the
// package comment has the promises. Kafka 2.8 and later write such directories; those of brokers
// with ZooKeeper have no metadata. The cluster keeps Kafka's cluster.id and the ids of the topics.
//
// Open transactions stay open, and the new cluster's coordinator ends them as Kafka's would have.
// Active producers and group members may continue. Each partition begins a new leader epoch.
//
// Import reads and verifies everything once, and writes it once unless the file system has
// reflinks. It blocks until all of it is on stable storage. If ctx ends, Import ends early and
// creates nothing.
//
// Errors: ErrInUse, ErrForeign, *DamagedError, ErrUnsupported, ErrUnknownTopic; *IncompleteError
// unless AllowMissing is set; an error matching fs.ErrExist if Dir is not empty, or fs.ErrInvalid
// if From or Dir is empty or one is inside the other; the context's error; and disk errors. If the
// last step fails, which makes the name of Dir durable, Dir may exist all the same, and is complete
// then.
func Import(ctx context.Context, cfg ImportConfig) (*Report, error) {
	report, err := runImport(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("import to %s: %w", cfg.Dir, err)
	}
	return report, nil
}

func runImport(ctx context.Context, cfg ImportConfig) (report *Report, err error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.workers == 0 {
		cfg.workers = 8
	}
	if len(cfg.From) == 0 || cfg.Dir == "" {
		return nil, fmt.Errorf("%w: it takes a directory to import from, and one to make", fs.ErrInvalid)
	}
	for _, from := range cfg.From {
		if within(cfg.FS, cfg.Dir, from) || within(cfg.FS, from, cfg.Dir) {
			return nil, fmt.Errorf("%w: %s and %s lie in each other", fs.ErrInvalid, from, cfg.Dir)
		}
	}
	sources, err := openSources(cfg.FS, cfg.From)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeSources(sources)) }()
	meta, err := findMetadata(sources)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(sources, meta, cfg.Topics)
	if err != nil {
		return nil, err
	}
	if len(p.missing) > 0 && !cfg.AllowMissing {
		return nil, &IncompleteError{p.missing}
	}
	s, err := newStaging(cfg.FS, cfg.Dir, "broker-1")
	if err != nil {
		return nil, err
	}
	im := &importing{cfg: cfg, plan: p, to: s, copier: copier{fsys: cfg.FS}, meter: meter{report: cfg.OnProgress, total: p.total}}
	if report, err = im.run(ctx); err == nil {
		for _, src := range sources {
			err = errors.Join(err, src.untouched())
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.abort())
	}
	return report, s.finish()
}

// openSources holds all directories of a broker.
func openSources(fsys vfs.FS, dirs []string) (sources []*source, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeSources(sources))
		}
	}()
	for _, dir := range dirs {
		s, err := openSource(fsys, dir)
		if err != nil {
			return sources, err
		}
		sources = append(sources, s)
		first := sources[0]
		switch {
		case s.cluster != first.cluster:
			return sources, fmt.Errorf("%w: %s is of cluster %s, %s of %s", ErrForeign, first.dir, first.cluster, s.dir, s.cluster)
		case s.node != first.node:
			return sources, fmt.Errorf("%w: %s is of broker %d, %s of %d", ErrForeign, first.dir, first.node, s.dir, s.node)
		}
	}
	return sources, nil
}

func closeSources(sources []*source) (err error) {
	for _, s := range sources {
		err = errors.Join(err, s.close())
	}
	return err
}

// within reports whether name is dir or below it, by whatever links.
func within(fsys vfs.FS, name, dir string) bool {
	rel, err := filepath.Rel(realPath(fsys, dir), realPath(fsys, name))
	return err == nil && filepath.IsLocal(rel)
}

// realPath is the real path of a name whose last elements need not exist.
func realPath(fsys vfs.FS, name string) string {
	if real, err := fsys.RealPath(name); err == nil {
		return real
	}
	name = filepath.Clean(name)
	if parent := filepath.Dir(name); parent != name {
		return filepath.Join(realPath(fsys, parent), filepath.Base(name))
	}
	return name
}
