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

// usersOfFile is the name of the file, beside the brokers' directories, with the names of the users
// that came from --users. With it the next start removes a user that was deleted from --users in
// the meantime, and leaves users that were created in another way.
const usersOfFile = "users-of-file"

// fileUsers creates the users of a file in a cluster, and removes them when the file does.
type fileUsers struct {
	file  string // name=password in each line
	kept  string // path of usersOfFile; empty: names are in memory only
	names map[string]bool
}

// newFileUsers returns the users of a file, for a cluster in dir, or in memory if dir is empty.
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
			return nil, fmt.Errorf("%s: each line must be a quoted name, got %q", u.kept, line)
		}
		u.names[name] = true
	}
	return u, err
}

// keep stores the names for the next start.
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

// apply reads the file, sets its users and passwords in the cluster, and removes users that are no
// longer in the file. If the file has no users it removes none and returns an error: the file is
// probably being rewritten.
func (u *fileUsers) apply(ctx context.Context, cluster *strata.Cluster) error {
	users, err := readUsers(u.file)
	if err != nil {
		return err
	}
	if len(users) == 0 && len(u.names) > 0 {
		return fmt.Errorf("%s: the file has no users, so its %d earlier users are kept: `strata users remove` removes the last one", u.file, len(u.names))
	}
	names := maps.Clone(u.names)
	for user := range users {
		names[user] = true
	}
	if !maps.Equal(names, u.names) {
		if err := u.keep(names); err != nil { // before a user is created: a crash in between must not lose its name
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
		switch { // errors do not quote the line: it may hold a password
		case !ok || user == "" || password == "":
			return nil, fmt.Errorf("%s, line %d: must be name=password", name, n)
		case users[user] != "":
			return nil, fmt.Errorf("%s, line %d: duplicate user %s", name, n, user)
		}
		users[user] = password
	}
	return users, lines.Err()
}
