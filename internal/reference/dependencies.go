package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dependencies returns the modules that go.mod requires, with the comments of their lines: where
// each is used, and for what. It is an error if a module has none.
func dependencies(root string) (string, error) {
	p, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Dependencies\n" + generated + `
The modules that the main module requires. A program that imports only package ` + "`log`" + ` links at most five modules of
others; ` + "`.ci/run`" + ` counts them. Heavy modules are required by nested modules: ` + "`interop/`" + ` tests clients of Kafka, and
` + "`bench/`" + ` measures other logs beside Strata. ` + "`.ci/run`" + ` runs staticcheck, and ` + "`.ci/release`" + ` cyclonedx-gomod, each in a
fixed version; no module requires them.

`)
	row(&b, "module", "used by", "for")
	row(&b, "---", "---", "---")
	for line := range strings.Lines(string(p)) {
		module, reason, ok := strings.Cut(strings.TrimSpace(line), " // ")
		name, _, isModule := strings.Cut(module, " v")
		if !isModule || reason == "indirect" {
			continue
		}
		users, purpose, both := strings.Cut(reason, ": ")
		if !ok || !both {
			return "", fmt.Errorf("go.mod has no reason for %s", name)
		}
		row(&b, code(name), users, purpose)
	}
	return b.String(), nil
}
