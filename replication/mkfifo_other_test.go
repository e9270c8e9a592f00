//go:build !unix

package replication

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
