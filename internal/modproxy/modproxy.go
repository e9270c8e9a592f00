// Package modproxy creates the files of a module proxy from a checkout. Tests can then use the
// module by its path and version, from another module, without a network.
package modproxy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the module at root to dir, as the given version. GOPROXY=file://dir then serves it.
// Nested modules are left out.
func Write(dir, root, version string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(mod), "\n")
	path, ok := strings.CutPrefix(line, "module ")
	if !ok {
		return fmt.Errorf("modproxy: %s: it does not begin with its module's path", filepath.Join(root, "go.mod"))
	}
	at := filepath.Join(dir, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
		version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(pack(f, root, path+"@"+version+"/"), f.Close())
}

// pack writes the files below root to a zip archive, with a prefix before their names.
func pack(f *os.File, root, prefix string) error {
	z := zip.NewWriter(f)
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && leftOut(root, name):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		p, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w, err := z.Create(prefix + filepath.ToSlash(rel))
		if err == nil {
			_, err = w.Write(p)
		}
		return err
	})
	return errors.Join(err, z.Close())
}

// leftOut reports whether a directory does not belong to the module.
func leftOut(root, dir string) bool {
	if dir == root {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || filepath.Base(dir) == ".git"
}
