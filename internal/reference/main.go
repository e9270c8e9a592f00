// Command reference writes the pages below docs/reference that follow from code: the keys of topics
// and brokers, the APIs of the wire protocol, the errors with their codes, the modules of go.mod
// with their reasons, and the flags of the command. Run it in the root of the repository after a
// change of any of these:
//
//	go run ./internal/reference
//
// A test fails when a page differs from the code.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// dir is the directory of the pages, relative to the root of the repository.
const dir = "docs/reference"

// pages are the pages by name, each with the function that returns its text. root is the path of
// the repository.
var pages = map[string]func(ctx context.Context, root string) (string, error){
	"topic-keys.md":   func(context.Context, string) (string, error) { return topicKeys(), nil },
	"broker-keys.md":  func(ctx context.Context, _ string) (string, error) { return brokerKeys(ctx) },
	"apis.md":         func(context.Context, string) (string, error) { return apis(), nil },
	"errors.md":       func(_ context.Context, root string) (string, error) { return errorCodes(root) },
	"dependencies.md": func(_ context.Context, root string) (string, error) { return dependencies(root) },
}

func main() {
	if err := write(context.Background(), "."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write replaces the pages of the repository at root. The page of the command is written by the
// command's own test, because a program cannot be imported.
func write(ctx context.Context, root string) error {
	for name, text := range pages {
		page, err := text(ctx, root)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./cmd/strata", "-count=1", "-run", "^TestPageOfTheCommandIsItsHelp$", "-update")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	return cmd.Run()
}
