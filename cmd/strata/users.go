package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) usersCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "users", Short: "List, set and remove the users of SASL SCRAM and PLAIN"})
	c.AddCommand(a.usersList(), a.usersSet(), a.usersRemove())
	return c
}

// A userLine is a stored SCRAM credential of a user, for one mechanism, without its secrets.
type userLine struct {
	Type       string `json:"type"`
	User       string `json:"user"`
	Mechanism  string `json:"mechanism"`
	Iterations int32  `json:"iterations,omitempty"`
}

func (l userLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s", l.User, l.Mechanism)
	switch {
	case l.Type != "user":
		fmt.Fprintf(w, " %s", l.Type)
	default:
		fmt.Fprintf(w, ", %d iterations", l.Iterations)
	}
	fmt.Fprintln(w)
}

func (a *app) usersList() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "list [USER...]", Short: "List users and their SCRAM mechanisms",
		Long:    "list prints the mechanisms and iterations of each user's credentials, never a password. Without a name it prints all users.",
		Example: "  strata users list -b localhost:9092\n  strata users list alice --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		users, err := c.admin.DescribeUserSCRAMs(ctx, names...)
		if err != nil {
			return err
		}
		for _, u := range users.Sorted() {
			if errors.Is(u.Err, kerr.ResourceNotFound) {
				return fmt.Errorf("%s: no such user", u.User)
			}
			if u.Err != nil {
				return withMessage(u.User, u.Err, u.ErrMessage)
			}
			for _, cred := range u.CredInfos {
				if err := a.emit(userLine{"user", u.User, cred.Mechanism.String(), cred.Iterations}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

// mechanisms parses --mechanism.
func mechanisms(names []string) (out []kadm.ScramMechanism, err error) {
	for _, name := range names {
		switch strings.ToLower(name) {
		case "scram-sha-256":
			out = append(out, kadm.ScramSha256)
		case "scram-sha-512":
			out = append(out, kadm.ScramSha512)
		default:
			return nil, misuse("--mechanism %s: must be scram-sha-256 or scram-sha-512", name)
		}
	}
	return out, nil
}

const mechanismFlag, mechanismHelp = "mechanism", "scram-sha-256, scram-sha-512, or both with a comma"

var bothMechanisms = []string{"scram-sha-256", "scram-sha-512"}

// minIterations and maxIterations are Kafka's bounds (ScramMechanism).
const minIterations, maxIterations = 4096, 16384

func (a *app) usersSet() *cobra.Command {
	var tg target
	var names []string
	iterations := int32(8192)
	c := &cobra.Command{Use: "set USER", Short: "Add a user, or change a password", Args: cobra.ExactArgs(1),
		Long: "set reads a password from the first line of standard input. The cluster gets one salted hash for each mechanism, never the password itself.\n" +
			"The user is added if it does not exist. The new password applies to new connections, with SASL PLAIN too.",
		Example: "  strata users set alice -b localhost:9092 < password\n" +
			"  printf '%s\\n' \"$NEW\" | strata users set alice --mechanism scram-sha-512 --iterations 16384 --dir data"}
	c.PreRunE = func(*cobra.Command, []string) error {
		if iterations < minIterations || iterations > maxIterations {
			return misuse("--iterations %d: must be %d to %d", iterations, minIterations, maxIterations)
		}
		_, err := mechanisms(names)
		return err
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		password, err := firstLine(a.in)
		if err != nil {
			return err
		}
		ms, err := mechanisms(names)
		if err != nil {
			return err
		}
		// A request may have a user only once.
		for _, m := range ms {
			err := tg.alterUser(ctx, c, args[0], nil, []kadm.UpsertSCRAM{{User: args[0], Mechanism: m, Iterations: iterations, Password: password}})
			if err != nil {
				return err
			}
			if err := a.emit(userLine{Type: "set", User: args[0], Mechanism: m.String()}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringSliceVar(&names, mechanismFlag, bothMechanisms, mechanismHelp)
	c.Flags().Int32Var(&iterations, "iterations", iterations, fmt.Sprintf("number of hash iterations, %d to %d", minIterations, maxIterations))
	return c
}

// firstLine reads a password.
func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("no password in the first line of standard input")
	}
	return line, nil
}

func (a *app) usersRemove() *cobra.Command {
	var tg target
	var names []string
	c := &cobra.Command{Use: "remove USER", Short: "Remove a user, or a mechanism", Args: cobra.ExactArgs(1),
		Long:    "remove deletes the credentials of a user, for all mechanisms or for those of --mechanism. Existing connections stay open.",
		Example: "  strata users remove alice -b localhost:9092\n  strata users remove alice --mechanism scram-sha-256 --dir data"}
	c.PreRunE = func(*cobra.Command, []string) error { _, err := mechanisms(names); return err }
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ms, err := mechanisms(names)
		if err != nil {
			return err
		}
		if len(ms) == 0 {
			if ms, err = tg.mechanismsOf(ctx, c, args[0]); err != nil {
				return err
			}
		}
		for _, m := range ms {
			if err := tg.alterUser(ctx, c, args[0], []kadm.DeleteSCRAM{{User: args[0], Mechanism: m}}, nil); err != nil {
				return err
			}
			if err := a.emit(userLine{Type: "removed", User: args[0], Mechanism: m.String()}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringSliceVar(&names, mechanismFlag, nil, mechanismHelp+" (default all mechanisms of the user)")
	return c
}

// mechanismsOf returns the mechanisms that a user has credentials for.
func (tg *target) mechanismsOf(ctx context.Context, c *conn, user string) (out []kadm.ScramMechanism, err error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	users, err := c.admin.DescribeUserSCRAMs(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, cred := range users[user].CredInfos {
		out = append(out, cred.Mechanism)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no such user", user)
	}
	return out, nil
}

// alterUser makes one change of a user.
func (tg *target) alterUser(ctx context.Context, c *conn, user string, del []kadm.DeleteSCRAM, set []kadm.UpsertSCRAM) error {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	rs, err := c.admin.AlterUserSCRAMs(ctx, del, set)
	if err != nil {
		return fmt.Errorf("%s: %w", user, err)
	}
	if r := rs[user]; errors.Is(r.Err, kerr.ResourceNotFound) {
		return fmt.Errorf("%s: the user has no password for that mechanism", user)
	} else if r.Err != nil {
		return withMessage(user, r.Err, r.ErrMessage)
	}
	return nil
}
