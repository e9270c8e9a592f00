package producer

import (
	"context"

	"github.com/stratalog/strata/replication"
)

// unsure is a backend whose metadata may be outdated.
type unsure struct{ *fake }

type unsureError struct{ error }

func (unsureError) Retriable() bool { return true }
func (e unsureError) Unwrap() error { return e.error }

func (u unsure) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	md, err := u.fake.Metadata(ctx, topics...)
	for name, tm := range md.Topics {
		if tm.Err != nil {
			tm.Err = unsureError{tm.Err}
			md.Topics[name] = tm
		}
	}
	return md, err
}
