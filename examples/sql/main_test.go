package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramCountsEachPaymentOnceAlthoughItFails(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, `300 payments, counted by a program that failed 7 times in the middle of one:
  account-0: 60 cents
  account-1: 60 cents
  account-2: 60 cents
  account-3: 60 cents
  account-4: 60 cents
the last 4 payments of account-2: 282 287 292 297
`, out.String())
}
