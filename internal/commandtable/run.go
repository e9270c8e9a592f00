package commandtable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// Address is the broker's address on the page.
const Address = "localhost:9092"

// A Session runs the commands of a column, from top to bottom.
type Session struct {
	Column string
	Addr   string   // of the broker
	Dir    string   // the working directory; data in it is the broker's
	Path   string   // directories of programs, searched before $PATH
	Env    []string // added to the environment of this process

	// Before is called before each job of the tool, to wait for its preconditions; may be nil.
	Before func(job string)
}

// Run runs all cells of the session's column. If the tool has no command for a job, strata does the
// job, since later jobs depend on it. Run reports the result of each job of the tool to a callback.
// After a failure it continues: the error names all failures.
func (s *Session) Run(ctx context.Context, rows []Row, tell func(job string, err error)) error {
	var errs []error
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Job] = true
		check, ok := checks[r.Job]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: nothing checks it", r.Job))
			continue
		}
		command := r.Cells[s.Column]
		var err error
		switch {
		case command != "":
			if s.Before != nil {
				s.Before(r.Job)
			}
			err = s.job(ctx, command, check)
			tell(r.Job, err)
		case check.look != "":
			_, err = s.shell(ctx, r.Cells["strata"])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Job, err))
		}
	}
	for job := range checks {
		if !known[job] {
			errs = append(errs, fmt.Errorf("%s: the page does not have it", job))
		}
	}
	return errors.Join(errs...)
}

// job runs a command and checks its output and its effect.
func (s *Session) job(ctx context.Context, command string, c check) error {
	out, err := s.shell(ctx, command)
	if err != nil {
		return err
	}
	if want := c.prints(s.Column); !regexp.MustCompile(want).MatchString(out) {
		return fmt.Errorf("%s: printed %q, not %q", command, out, want)
	}
	if c.look == "" {
		return nil
	}
	out, err = s.shell(ctx, c.look)
	if err == nil && !regexp.MustCompile(c.shows).MatchString(out) {
		err = fmt.Errorf("%s, and then %s shows %q, not %q", command, c.look, out, c.shows)
	}
	return err
}

// shell runs a command as it is on the page, except for the broker's address.
func (s *Session) shell(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+strings.ReplaceAll(command, Address, s.Addr))
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "PATH="+s.Path+string(os.PathListSeparator)+os.Getenv("PATH"), "STRATA_BOOTSTRAP="+s.Addr, "K=-b "+s.Addr, "B=--bootstrap-server "+s.Addr)
	cmd.Env = append(cmd.Env, s.Env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", command, err, out, errs.String())
	}
	return string(out), nil
}
