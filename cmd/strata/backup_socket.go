package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stratalog/strata"
)

// A backupSocket is where a cluster that is served is told to back itself up: a socket in its
// directory, in a directory that only the serving user can enter. A caller writes one backupRequest
// as JSON and gets one backupReply; it takes a request back by closing the connection.
type backupSocket struct {
	cluster *strata.Cluster
	ln      net.Listener
	stop    context.CancelFunc // ends the backups under way
	wg      sync.WaitGroup     // the listener's goroutine and those of connections
}

// backupRequest asks for a backup to the directory Backup, an absolute path.
type backupRequest struct {
	Backup string `json:"backup"`
}

// backupReply says how it went; Error is "" if it did.
type backupReply struct {
	Error string `json:"error"`
}

// backupSocketPath returns the socket of the cluster in dir.
func backupSocketPath(dir string) string { return filepath.Join(dir, ".control", "socket") }

// maxBackupRequest bounds what is read of a request, in bytes.
const maxBackupRequest = 64 << 10

// listenForBackups opens the socket of the cluster in dir, which this process has opened: a socket
// that is there was left behind by a process that was killed.
func listenForBackups(cluster *strata.Cluster, dir string) (*backupSocket, error) {
	path := backupSocketPath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &backupSocket{cluster: cluster, ln: ln, stop: stop}
	c.wg.Go(func() { c.accept(ctx) })
	return c, nil
}

// Shutdown ends the backups under way, which leave nothing behind, and takes the socket away.
func (c *backupSocket) Shutdown(context.Context) error {
	c.stop()
	err := c.ln.Close()
	c.wg.Wait()
	if gone := os.Remove(filepath.Dir(c.ln.Addr().String())); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

func (c *backupSocket) accept(ctx context.Context) {
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			return // closed
		}
		c.wg.Go(func() { c.handle(ctx, conn) })
	}
}

// handle carries out the request of one connection.
func (c *backupSocket) handle(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	// reads end, the reply can be written
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(0, 0)) })()
	var req backupRequest
	if err := json.NewDecoder(io.LimitReader(conn, maxBackupRequest)).Decode(&req); err != nil {
		return
	}
	c.wg.Go(func() {
		_, _ = conn.Read(make([]byte, 1)) // returns when the caller has gone, or handle has
		cancel()
	})
	var reply backupReply
	if !filepath.IsAbs(req.Backup) {
		reply.Error = fmt.Sprintf("backup to %q: not an absolute path", req.Backup)
	} else if err := c.cluster.Backup(ctx, req.Backup); err != nil {
		reply.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(reply)
}

// errNotServed says that nobody listens at the cluster's socket.
var errNotServed = errors.New("not served by `strata serve`: the process that has it open can copy it, strata.Cluster.Backup")

// backupServed has the process that serves the cluster in dir copy it to the directory to.
func backupServed(ctx context.Context, dir, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", backupSocketPath(dir))
	if err != nil {
		return fmt.Errorf("%w (%w)", errNotServed, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(backupRequest{to}); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	var reply backupReply
	switch err := json.NewDecoder(conn).Decode(&reply); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("backup: the serving process went away: %w", err)
	case reply.Error != "":
		return fmt.Errorf("the serving process: %s", reply.Error)
	}
	return nil
}
