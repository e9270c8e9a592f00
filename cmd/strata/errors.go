package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// named is err about names, if nobody has said yet what it is about: the client's errors for a
// whole request do not.
func named(err error, names []string) error {
	switch e := err.(type) { // not errors.As: who has wrapped it has named it
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

// onceOnly are the descriptions of codes that say a thing twice, and how it is said once.
var onceOnly = strings.NewReplacer(
	kerr.TopicAuthorizationFailed.Description, "Topic authorization failed.",
	kerr.GroupAuthorizationFailed.Description, "Group authorization failed.",
)

// A refusal is an error of a broker with its own words for it, which are about what was asked,
// where those of the code are for all that it can be.
type refusal struct {
	code  *kerr.Error
	words string
}

func (r *refusal) Error() string { return r.code.Message + ": " + r.words }
func (r *refusal) Unwrap() error { return r.code }
