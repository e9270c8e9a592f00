// Package place opens the cluster of an example: one in its process, or with -kafka a cluster
// elsewhere: Apache Kafka, Redpanda or strata serve. There the names of topics and groups get a
// suffix of the run, and Close deletes them.
package place

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/remote"
)

// A Place is where an example runs. The zero Place is the example's process.
type Place struct {
	kafka  string // address of a broker; empty: the example's process
	suffix string // of names of topics and groups
}

// FromFlags returns the place that the flags of the program select.
func FromFlags() Place {
	kafka := flag.String("kafka", "", "HOST:PORT of a broker, instead of a cluster in this process")
	flag.Parse()
	return At(*kafka)
}

// At returns the place of a broker; "" is the example's process.
func At(kafka string) Place {
	if kafka == "" {
		return Place{}
	}
	var id [4]byte
	rand.Read(id[:])
	return Place{kafka, "-" + hex.EncodeToString(id[:])}
}

// Another returns the same place with other names.
func (p Place) Another() Place { return At(p.kafka) }

// Variables of the environment of a process that an example starts.
const (
	kafkaVariable  = "STRATA_EXAMPLE_KAFKA"
	suffixVariable = "STRATA_EXAMPLE_SUFFIX"
)

// Environ returns the variables with which a process that the example starts is at the same place.
func (p Place) Environ() []string {
	return []string{kafkaVariable + "=" + p.kafka, suffixVariable + "=" + p.suffix}
}

// FromEnviron returns the place of the process that has started this one.
func FromEnviron() Place { return Place{os.Getenv(kafkaVariable), os.Getenv(suffixVariable)} }

// Elsewhere reports whether the cluster is not in the example's process.
func (p Place) Elsewhere() bool { return p.kafka != "" }

// Name returns the name in the cluster of a topic, group or transactional id of the example.
func (p Place) Name(name string) string { return name + p.suffix }

// Open opens the cluster. cfg is that of one in the example's process.
func (p Place) Open(ctx context.Context, cfg strata.Config) (strata.Client, error) {
	if p.Elsewhere() {
		return remote.Open(ctx, remote.Config{Brokers: []string{p.kafka}})
	}
	return strata.Open(cfg)
}

// cleanUpTimeout bounds the deletion of topics and groups in Close.
const cleanUpTimeout = 20 * time.Second

// Close closes the cluster. It first deletes the topics and groups that the example has created
// elsewhere, and prints the names of groups with static members: those leave when their session
// ends, and the group can be deleted then. The error names all else that is left.
func (p Place) Close(c strata.Client) error {
	var errs []error
	if p.Elsewhere() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		errs = append(errs, p.deleteTopics(ctx, c), p.deleteGroups(ctx, c))
	}
	return errors.Join(append(errs, c.Close())...)
}

func (p Place) deleteTopics(ctx context.Context, c strata.Client) error {
	topics, err := c.Topics(ctx)
	errs := []error{err}
	for _, t := range topics {
		if strings.HasSuffix(t.Name, p.suffix) {
			if err := c.DeleteTopic(ctx, t.Name); err != nil {
				errs = append(errs, fmt.Errorf("topic %s is left: %w", t.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (p Place) deleteGroups(ctx context.Context, c strata.Client) error {
	groups, err := c.Groups(ctx)
	errs := []error{err}
	for _, g := range groups {
		if strings.HasSuffix(g.ID, p.suffix) {
			switch err := c.DeleteGroup(ctx, g.ID); {
			case err == nil, errors.Is(err, group.ErrGroupNotFound):
			case errors.Is(err, group.ErrNonEmptyGroup):
				fmt.Fprintf(os.Stderr, "group %s is left: it has static members until their session ends\n", g.ID)
			default:
				errs = append(errs, fmt.Errorf("group %s is left: %w", g.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}
