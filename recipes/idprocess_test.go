package recipes_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// idProcessVariable makes this program one that makes IDs, of the servers that it
// names, among the worker numbers up to that of idLastVariable, in a session with
// the timeout of idTimeoutVariable.
const (
	idProcessVariable = "BATON_TEST_IDS"
	idLastVariable    = "BATON_TEST_IDS_LAST"
	idTimeoutVariable = "BATON_TEST_IDS_TIMEOUT"
)

const processWindow = 200 * time.Millisecond

// makeIDs writes IDs to out until there are no more to be had, or nobody reads.
func makeIDs(addr string, out io.Writer) (status int) {
	err := func() error {
		servers, err := ensemble.NewFixed(addr)
		if err != nil {
			return err
		}
		timeout, err := time.ParseDuration(os.Getenv(idTimeoutVariable))
		if err != nil {
			return err
		}
		client, err := framework.New(servers, framework.WithSessionTimeout(timeout))
		if err != nil {
			return err
		}
		if err := client.Start(); err != nil {
			return err
		}
		last, err := strconv.Atoi(os.Getenv(idLastVariable))
		if err != nil {
			return err
		}
		ids := recipes.NewSnowflake(recipes.NewWorkerIDs(client, idRoot, recipes.WithRange(0, last),
			recipes.WithWindow(processWindow), recipes.WaitForNumber()), recipes.WithMaxLead(processWindow/2))
		w := bufio.NewWriterSize(out, 1<<15)
		for {
			id, err := ids.Next(context.Background())
			if err != nil {
				return errors.Join(w.Flush(), err)
			}
			if err := binary.Write(w, binary.BigEndian, int64(id)); err != nil {
				return err
			}
		}
	}()
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, recipes.ErrLost) {
		return 0
	}
	return 1
}
