// Command release builds the files of a release: an archive with the command for each platform, the
// context of the container image, a bill of materials (CycloneDX), and SHA256SUMS. Two runs of the
// same commit write the same bytes. .ci/release runs it twice and compares.
//
//	go run ./internal/release -version v0.1.0 -out DIR
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms are the operating systems and architectures of a release.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// beside are the files that each archive has beside the command.
var beside = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"}

// bomTool writes the bill of materials.
const bomTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

func main() {
	version := flag.String("version", "", "version of the release, as in v0.1.0")
	out := flag.String("out", "", "directory for the files; it must not exist")
	only := flag.String("platforms", strings.Join(platforms, ","), "platforms, OS/ARCH with commas between them")
	flag.Parse()
	ctx := context.Background()
	if err := build(ctx, *version, *out, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build writes the files of a release to out. The current directory is the root of the repository.
func build(ctx context.Context, version, out string, platforms []string) error {
	if !strings.HasPrefix(version, "v") || version != filepath.Base(version) {
		return fmt.Errorf("-version %q is not a version, as in v0.1.0", version)
	}
	if out == "" {
		return errors.New("-out is missing")
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	when, err := commitTime(ctx)
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	var image []file
	for _, p := range platforms {
		system, arch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("platform %q is not OS/ARCH", p)
		}
		name := "strata"
		if system == "windows" {
			name += ".exe"
		}
		program := filepath.Join(programs, system, arch, name)
		if err := compile(ctx, system, arch, program); err != nil {
			return err
		}
		root := fmt.Sprintf("strata_%s_%s_%s", version, system, arch)
		files := []file{{name: root + "/" + name, from: program, mode: 0o755}}
		for _, b := range beside {
			files = append(files, file{name: root + "/" + b, from: b, mode: 0o644})
		}
		if system == "linux" {
			image = append(image, file{name: "linux/" + arch + "/strata", from: program, mode: 0o755})
		}
		write, suffix := writeTar, ".tar.gz"
		if system == "windows" {
			write, suffix = writeZip, ".zip"
		}
		if err := writeFile(filepath.Join(out, root+suffix), files, when, write); err != nil {
			return err
		}
	}
	if len(image) > 0 {
		image = append(image, file{name: "Dockerfile", from: filepath.Join("internal", "release", "Dockerfile"), mode: 0o644}, file{name: "data/", mode: 0o755})
		if err := writeFile(filepath.Join(out, "strata_"+version+"_image.tar.gz"), image, when, writeTar); err != nil {
			return err
		}
	}
	if err := bom(ctx, filepath.Join(out, "strata_"+version+".cdx.json")); err != nil {
		return err
	}
	return sums(out)
}

// commitTime returns the time of the commit. All files in the archives have that time.
func commitTime(ctx context.Context) (time.Time, error) {
	p, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(p)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// compile builds the command without cgo, paths and symbols, with the commit.
func compile(ctx context.Context, system, arch, to string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -buildid=", "-o", to, "./cmd/strata")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0")
	if p, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s/%s: %w: %s", system, arch, err, p)
	}
	return nil
}

// bom writes the bill of materials of the command: its modules with versions and hashes.
func bom(ctx context.Context, to string) error {
	c := exec.CommandContext(ctx, "go", "run", bomTool, "app", "-json", "-noserial", "-notimestamp", "-licenses", "-std",
		"-main", "cmd/strata", "-output", to, ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if p, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("bill of materials: %w: %s", err, p)
	}
	return nil
}

// A file is an entry of an archive.
type file struct {
	name string // in the archive; a name that ends with a slash is a directory
	from string // file on disk
	mode int64
}

// writeFile writes an archive. Entries are in the order of their names.
func writeFile(to string, files []file, when time.Time, write func(io.Writer, []file, time.Time) error) error {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(write(f, files, when), f.Close())
}

func writeTar(w io.Writer, files []file, when time.Time) error {
	z := gzip.NewWriter(w) // without a name and a time
	t := tar.NewWriter(z)
	for _, f := range files {
		p, err := f.content()
		if err != nil {
			return err
		}
		h := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(p)), ModTime: when, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if f.isDirectory() {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := t.Write(p); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func writeZip(w io.Writer, files []file, when time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		p, err := f.content()
		if err != nil {
			return err
		}
		h := zip.FileHeader{Name: f.name, Modified: when, Method: zip.Deflate}
		h.SetMode(os.FileMode(f.mode))
		e, err := z.CreateHeader(&h)
		if err != nil {
			return err
		}
		if _, err := e.Write(p); err != nil {
			return err
		}
	}
	return z.Close()
}

func (f file) isDirectory() bool { return strings.HasSuffix(f.name, "/") }

func (f file) content() ([]byte, error) {
	if f.isDirectory() {
		return nil, nil
	}
	return os.ReadFile(f.from)
}

// sums writes SHA256SUMS, for sha256sum --check.
func sums(dir string) error {
	entries, err := os.ReadDir(dir) // in the order of their names
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, e := range entries {
		p, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256(p), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(all.String()), 0o644)
}
