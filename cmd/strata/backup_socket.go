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

// A backupSocket receives requests to back up a cluster that is being served. It is a socket below
// the cluster's directory, in a directory that only the serving user can enter. A caller writes one
// backupRequest as JSON and gets one backupReply. Closing the connection cancels the request.
type backupSocket struct {
	cluster *strata.Cluster
	ln      net.Listener
	stop    context.CancelFunc // cancels the backups that are running
	wg      sync.WaitGroup     // the listener's goroutine and those of connections
}

// backupRequest is a request to back up to the directory Backup, an absolute path.
type backupRequest struct {
	Backup string `json:"backup"`
}

// backupReply is the result of a backup. Error is "" if it succeeded.
type backupReply struct {
	Error string `json:"error"`
}

// backupSocketPath returns the socket of the cluster in dir.
func backupSocketPath(dir string) string { return filepath.Join(dir, ".control", "socket") }

// maxBackupRequest bounds the size of a request, in bytes.
const maxBackupRequest = 64 << 10

// listenForBackups opens the socket of the cluster in dir. This process holds the lock of dir, so
// an existing socket is a leftover of a process that was killed, and is removed.
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

// Shutdown cancels the backups that are running, which leave nothing behind, and removes the
// socket.
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
	// ends the read below; the reply can still be written
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(0, 0)) })()
	var req backupRequest
	if err := json.NewDecoder(io.LimitReader(conn, maxBackupRequest)).Decode(&req); err != nil {
		return
	}
	c.wg.Go(func() {
		_, _ = conn.Read(make([]byte, 1)) // returns when the caller closes the connection, or when handle returns
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

// errNotServed is returned if no process listens at the cluster's socket.
var errNotServed = errors.New("not served by `strata serve`: only the process that has it open can copy it, with strata.Cluster.Backup")

// backupServed requests a copy to the directory to from the process that serves the cluster in dir.
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
		return fmt.Errorf("backup: the serving process closed the connection: %w", err)
	case reply.Error != "":
		return fmt.Errorf("the serving process: %s", reply.Error)
	}
	return nil
}
