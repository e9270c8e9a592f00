package kafkadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/vfs"
)

// ImportConfig says what Import is to do.
type ImportConfig struct {
	// From are the log directories of one Kafka broker: all that its log.dirs names, and its
	// metadata.log.dir if that is another one.
	From []string
	// Dir is the directory of the cluster that is made. It must not exist, or be empty.
	Dir string
	// Topics are the names of the topics to import; none: all. Internal topics, which have the
	// offsets of groups and the states of transactions, always come along.
	Topics []string
	// AllowMissing goes on although partitions are not there, or may not be all there: those of
	// other brokers, or of log directories that From does not have. They are empty in the new
	// cluster, or end where this broker's replica does, and groups may have committed offsets
	// behind that.
	AllowMissing bool

	FS         vfs.FS         // that both are in. nil: the operating system's
	OnProgress func(Progress) // called after each file, by one goroutine at a time; nil: nobody is told

	workers int // partitions that are copied at a time; 0: 8
}

// Import makes a cluster of one broker, which strata.Open opens, of the log directories of a Kafka
// broker that does not run, whether it was stopped in order or killed; see the package for what it
// promises. Kafka 2.8 and later write such directories; those of brokers with ZooKeeper have no
// metadata. The cluster keeps Kafka's cluster.id and the ids of the topics.
//
// Transactions that are open stay open, and the new cluster's coordinator ends them as Kafka's
// would have. Producers and members of groups that were at work may go on. Each partition begins a
// new leader epoch.
//
// It reads and checks everything once, writes it once unless the file system has reflinks, and
// returns when all of it is on stable storage. It blocks for that long, and ends early, with
// nothing made, when ctx does.
//
// Errors: ErrInUse, ErrForeign, *DamagedError, ErrUnsupported, ErrUnknownTopic, *IncompleteError
// unless AllowMissing is set; one that matches fs.ErrExist if Dir is not empty, or fs.ErrInvalid if
// From or Dir is missing or one lies in the other; ctx's, and those of the disk. If the last step
// fails, which makes the name of Dir durable, Dir may be there, as a whole, all the same.
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
	s, err := newStaging(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	im := &importing{cfg: cfg, plan: p, to: s, copier: copier{fsys: cfg.FS}, meter: meter{tell: cfg.OnProgress, total: p.total}}
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
