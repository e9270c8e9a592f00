package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// named adds names to err if err does not mention them yet, as errors of the client for a whole
// request do not.
func named(err error, names []string) error {
	switch e := err.(type) { // not errors.As: a wrapped error has its names already
	case *kadm.AuthError:
		err = e.Err
	case *kadm.ShardErrors:
		if len(e.Errs) == 0 {
			return err
		}
		err = e.Errs[0].Err
	default:
		return err
	}
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(names, ", "), err)
}

// ofSome returns nil if err only means that some partitions have no leader: the results of the
// other partitions are valid. Else it returns err.
func ofSome(err error) error {
	several, ok := errors.AsType[*kadm.ShardErrors](err)
	if !ok {
		return err
	}
	for _, e := range several.Errs {
		if !errors.Is(e.Err, kerr.LeaderNotAvailable) && !errors.Is(e.Err, kerr.NotLeaderForPartition) {
			return err
		}
	}
	return nil
}

// onceOnly shortens descriptions of error codes that repeat themselves.
var onceOnly = strings.NewReplacer(
	kerr.TopicAuthorizationFailed.Description, "Topic authorization failed.",
	kerr.GroupAuthorizationFailed.Description, "Group authorization failed.",
)

// A refusal is an error code with the message of the broker. The message is specific to the
// request; the description of the code is general.
type refusal struct {
	code  *kerr.Error
	words string
}

func (r *refusal) Error() string { return r.code.Message + ": " + r.words }
func (r *refusal) Unwrap() error { return r.code }
