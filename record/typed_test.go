package record_test

import (
	"errors"
	"iter"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// stream yields records with the given values, then an error of the stream.
func stream(failed error, values ...string) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for i, v := range values {
			r := record.String("t", "", v).To(3)
			r.Partition, r.Offset = 3, int64(10+i)
			if !yield(r, nil) {
				return
			}
		}
		yield(record.Record{}, failed)
	}
}

func TestRecordsThatCannotBeDecodedAreToldApartFromErrorsOfTheStream(t *testing.T) {
	lost := errors.New("lost")
	check := func(errs []error) {
		require.Len(t, errs, 4)
		require.NoError(t, errs[0])
		require.NoError(t, errs[2], "the walk goes on")
		var de *record.DecodeError
		require.ErrorAs(t, errs[1], &de)
		require.Equal(t, record.DecodeError{Topic: "t", Partition: 3, Offset: 11, Err: de.Err}, *de)
		require.ErrorIs(t, errs[1], strconv.ErrSyntax)
		require.ErrorIs(t, errs[3], lost)
		require.False(t, errors.As(errs[3], &de), "an error of the stream is none of a record")
	}
	var errs []error
	for r, err := range record.Decode(stream(lost, "1", "x", "3"), func(v []byte) (int, error) { return strconv.Atoi(string(v)) }) {
		if len(errs) == 1 {
			require.Equal(t, "x", string(r.Record.Value), "the record comes with its error")
		}
		errs = append(errs, err)
	}
	check(errs)
	errs = nil
	for _, err := range record.DecodeRecord(stream(lost, "1", "x", "3"), func(r record.Record) (string, int, error) {
		n, err := strconv.Atoi(string(r.Value))
		return string(r.Key), n, err
	}) {
		errs = append(errs, err)
	}
	check(errs)
}
