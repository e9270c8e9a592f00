package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// usersOfFile is what the names of users that came from a file are kept in, beside the brokers of a
// directory: a user that is taken out of the file while nobody serves is taken away, too, and no
// one that was made in another way.
const usersOfFile = "users-of-file"

// fileUsers makes the users of a file those of a cluster.
type fileUsers struct {
	file  string // name=password in each line
	kept  string // the file of names; empty: they are in memory only
	names map[string]bool
}

// newFileUsers returns those of a file, for a cluster in dir or, if that is empty, in memory.
func newFileUsers(file, dir string) (*fileUsers, error) {
	u := &fileUsers{file: file, names: map[string]bool{}}
	if dir == "" {
		return u, nil
	}
	u.kept = filepath.Join(dir, usersOfFile)
	text, err := vfs.ReadFile(vfs.OS(), u.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	for line := range strings.Lines(string(text)) {
		name, bad := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if bad != nil {
			return nil, fmt.Errorf("%s: it is a name in quotes in each line, and not %q", u.kept, line)
		}
		u.names[name] = true
	}
	return u, err
}

// keep has the names survive the process.
func (u *fileUsers) keep(names map[string]bool) error {
	if u.names = names; u.kept == "" {
		return nil
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		text.WriteString(strconv.Quote(name) + "\n")
	}
	return vfs.WriteFile(vfs.OS(), u.kept, []byte(text.String()))
}

// apply gives the cluster the users of the file, and takes away those that were of the file and are
// no more.
func (u *fileUsers) apply(ctx context.Context, cluster *strata.Cluster) error {
	users, err := readUsers(u.file)
	if err != nil {
		return err
	}
	names := maps.Clone(u.names)
	for user := range users {
		names[user] = true
	}
	if !maps.Equal(names, u.names) {
		if err := u.keep(names); err != nil { // before there is one that nobody would know of
			return err
		}
	}
	there := cluster.ScramUsers()
	for user, password := range users {
		right := func(c replication.ScramCredential) bool { return c.Matches(password) }
		if len(there[user]) == 2 && right(there[user][0]) && right(there[user][1]) {
			continue
		}
		if err := cluster.SetPassword(ctx, user, password); err != nil {
			return err
		}
	}
	gone := false
	for user := range u.names {
		if users[user] != "" {
			continue
		}
		if err := takeAway(ctx, cluster, user, there[user]); err != nil {
			return err
		}
		delete(names, user)
		gone = true
	}
	if !gone {
		return nil
	}
	return u.keep(names)
}

// takeAway removes the credentials of a user.
func takeAway(ctx context.Context, cluster *strata.Cluster, user string, creds []replication.ScramCredential) error {
	for _, cred := range slices.Clone(creds) {
		refused, err := cluster.AlterScramCredentials(ctx, replication.ScramChange{User: user, Delete: &cred.Mechanism})
		if err == nil {
			err = refused[user]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readUsers reads a file of users.
func readUsers(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	users := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, ok := strings.Cut(line, "=")
		user, password = strings.TrimSpace(user), strings.TrimSpace(password)
		switch { // the line is not told: it may hold a password
		case !ok || user == "" || password == "":
			return nil, fmt.Errorf("%s, line %d: it is name=password", name, n)
		case users[user] != "":
			return nil, fmt.Errorf("%s, line %d: user %s is there twice", name, n, user)
		}
		users[user] = password
	}
	return users, lines.Err()
}
