package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication"
)

// A versionLine describes the program. Fields that the build did not record are empty.
type versionLine struct {
	Type     string        `json:"type"` // "version"
	Version  string        `json:"version"`
	Commit   string        `json:"commit,omitempty"`
	Modified bool          `json:"modified,omitempty"` // the checkout had uncommitted changes
	Go       string        `json:"go"`
	Platform string        `json:"platform"` // operating system and architecture, as in linux/amd64
	Formats  formatsOfFile `json:"formats"`
}

// formatsOfFile are the format versions that this version writes. It reads all earlier ones.
type formatsOfFile struct {
	RecordBatch int `json:"recordBatch"`
	LogState    int `json:"logState"`
	Journal     int `json:"journal"`
	Directory   int `json:"directory"`
	Metadata    int `json:"metadata"` // Kafka: metadata.version
}

func (l versionLine) writeText(w io.Writer) {
	commit := l.Commit
	switch {
	case commit == "":
		commit = "unknown"
	case l.Modified:
		commit += ", with uncommitted changes"
	}
	fmt.Fprintf(w, "strata %s\n", l.Version)
	fmt.Fprintf(w, "  commit %s\n", commit)
	fmt.Fprintf(w, "  go %s %s\n", l.Go, l.Platform)
	f := l.Formats
	fmt.Fprintf(w, "  formats: record batch %d, log state %d, journal %d, directory %d, metadata.version %d\n",
		f.RecordBatch, f.LogState, f.Journal, f.Directory, f.Metadata)
}

func describeVersion() versionLine {
	l := versionLine{
		Type: "version", Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Formats: formatsOfFile{2, log.StateFormat, log.JournalFormat, replication.DirectoryFormat, replication.MetadataLevel},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				l.Commit = s.Value
			case "vcs.modified":
				l.Modified = s.Value == "true"
			}
		}
	}
	return l
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit, Go release and file formats",
		Long: "version prints the version of the program, the commit and Go release that it was built from, and the versions of the file formats that it\n" +
			"writes. It reads all earlier formats; a later format is an error.",
		Example: "  strata version\n  strata version --json | jq .formats",
		Args:    cobra.NoArgs,
		RunE:    a.do(func(context.Context, []string) error { return a.emit(describeVersion()) }),
	}
}
