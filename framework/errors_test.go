package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/retry"
)

// TestFinalErrors: the server's word, at once, with path and code.
func TestFinalErrors(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		want error
		code wire.Code
		path string
		do   func(c *framework.Client) error
	}{
		{framework.ErrNoNode, wire.CodeNoNode, "/none", func(c *framework.Client) error {
			_, _, err := c.Get(ctx, "/none")
			return err
		}},
		{framework.ErrNoNode, wire.CodeNoNode, "/none/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/none/c", nil)
			return err
		}},
		{framework.ErrNodeExists, wire.CodeNodeExists, "/n", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/n", nil)
			return err
		}},
		{framework.ErrBadVersion, wire.CodeBadVersion, "/n", func(c *framework.Client) error {
			_, err := c.Set(ctx, "/n", nil, 7)
			return err
		}},
		{framework.ErrBadVersion, wire.CodeBadVersion, "/n/c", func(c *framework.Client) error { return c.Delete(ctx, "/n/c", 7) }},
		{framework.ErrNotEmpty, wire.CodeNotEmpty, "/n", func(c *framework.Client) error { return c.Delete(ctx, "/n", 0) }},
		{framework.ErrNoChildrenForEphemerals, wire.CodeNoChildrenForEphemerals, "/e/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/e/c", nil)
			return err
		}},
		{framework.ErrNoAuth, wire.CodeNoAuth, "/secret", func(c *framework.Client) error {
			_, _, err := c.Get(ctx, "/secret")
			return err
		}},
		{framework.ErrNoAuth, wire.CodeNoAuth, "/secret/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/secret/c", nil, framework.WithParents(), framework.Protected())
			return err
		}},
		{framework.ErrInvalidACL, wire.CodeInvalidACL, "/m", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/m", nil, framework.WithACL(framework.AuthACL(framework.PermAll)...))
			return err
		}},
	} {
		t.Run(fmt.Sprint(tc.path, tc.want), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				create(t, c, "/n", "")
				create(t, c, "/n/c", "")
				create(t, c, "/e", "", framework.WithMode(framework.Ephemeral))
				create(t, c, "/secret", "", framework.WithACL(framework.DigestACL(framework.PermAll, "ann", "pw")...))
				began := time.Now()
				err := tc.do(c)
				var e *framework.Error
				if !errors.Is(err, tc.want) || !errors.As(err, &e) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
				if e.Code != int32(tc.code) || e.Path != tc.path || e.Unknown || framework.IsRetryable(err) {
					t.Fatalf("%+v", e)
				}
				if time.Since(began) != 0 {
					t.Fatalf("took %v", time.Since(began))
				}
			})
		})
	}
}

func TestErrorCodes(t *testing.T) {
	for code, want := range map[wire.Code]error{
		-4: framework.ErrConnectionLoss, -6: framework.ErrUnimplemented, -8: framework.ErrBadArguments,
		-115: framework.ErrAuthFailed, -118: framework.ErrConnectionLoss, -119: framework.ErrReadOnly,
		-125: framework.ErrQuotaExceeded, -112: framework.ErrSessionLost, -99: framework.ErrServer, -13: framework.ErrServer,
	} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv, framework.WithRetry(retry.OneTime(time.Millisecond)))
				srv.OnRequest(func(r embedded.Request) embedded.Verdict {
					if r.Op == "exists" {
						return embedded.Answer(int32(code))
					}
					return embedded.Pass
				})
				_, err := c.Exists(t.Context(), "/")
				var e *framework.Error
				if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != int32(code) {
					t.Fatalf("%v, want %v", err, want)
				}
			})
		})
	}
}

// TestTransientCodes are tried again.
func TestTransientCodes(t *testing.T) {
	for _, code := range []int32{-7, -122, -127, -118} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv)
			n := 0
			srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if r.Op == "exists" {
					if n++; n == 1 {
						return embedded.Answer(code)
					}
				}
				return embedded.Pass
			})
			if _, err := c.Exists(t.Context(), "/"); err != nil || n != 2 {
				t.Fatalf("code %d: %v after %d tries", code, err, n)
			}
		})
	}
}
