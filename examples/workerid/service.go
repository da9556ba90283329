package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const (
	maxIDs  = 10_000           // of one request
	idWait  = 2 * time.Second  // of one request, for an ID
	endWait = 10 * time.Second // for requests that are under way in the end
)

// A service makes IDs for whoever asks.
type service struct {
	client *framework.Client
	ids    *recipes.Snowflake
	layout recipes.Layout
}

// newService claims a worker number.
func newService(ctx context.Context, client *framework.Client, c config) (*service, error) {
	workers := recipes.NewWorkerIDs(client, c.root, recipes.WithWindow(c.window))
	ids := recipes.NewSnowflake(workers, recipes.WithReclaim())
	wait, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	if err := ids.Start(wait); err != nil {
		return nil, errors.Join(err, ids.Close())
	}
	return &service{client: client, ids: ids, layout: workers.Layout()}, nil
}

// close releases the number. That it was lost before, and not yet replaced, is no
// failure: another has it, or will.
func (s *service) close(log *slog.Logger) error {
	number := s.ids.Worker().ID()
	err := s.ids.Close()
	log.Info("released", "worker", number, "err", err)
	if errors.Is(err, recipes.ErrLost) {
		return nil
	}
	return err
}

// serve serves until ctx ends, and then what is under way.
func (s *service) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	err := server.Shutdown(last)
	<-ended
	return err
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /id", s.one)
	mux.HandleFunc("GET /ids", s.some)
	mux.HandleFunc("GET /healthz", s.health)
	return mux
}

func (s *service) one(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), idWait)
	defer cancel()
	id, err := s.ids.Next(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, id)
}

func (s *service) some(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil || n < 1 || n > maxIDs {
		http.Error(w, fmt.Sprintf("n must be a number from 1 to %d", maxIDs), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), idWait)
	defer cancel()
	ids, err := s.ids.NextN(ctx, n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, http.StatusOK, ids)
}

// health is what /healthz says.
type health struct {
	Status     string `json:"status"` // ok, or what is wrong
	Worker     int    `json:"worker"`
	Claim      string `json:"claim"` // held, unknown, lost
	Slot       slot   `json:"slot"`
	Reserve    string `json:"reserve"`    // for how long IDs can be made without ZooKeeper
	Connection string `json:"connection"` // the client's state
	EndOfLife  string `json:"endOfLife"`
}

type slot struct {
	Path       string    `json:"path"`
	Owner      string    `json:"owner"`
	Generation int64     `json:"generation"`
	High       time.Time `json:"high"` // up to which time is reserved
}

// health answers 503 only if no IDs can be made: a service that still has a
// reserve is not to be taken out because ZooKeeper is away.
func (s *service) health(w http.ResponseWriter, r *http.Request) {
	text, status := "ok", http.StatusOK
	if s.reserve() == 0 { // idle for long, or no ZooKeeper: only an ID can tell
		ctx, cancel := context.WithTimeout(r.Context(), idWait)
		defer cancel()
		if _, err := s.ids.Next(ctx); err != nil {
			text, status = err.Error(), http.StatusServiceUnavailable
		}
	}
	worker := s.ids.Worker()
	_, high := worker.Reserved()
	answer(w, status, health{
		Status: text, Worker: worker.ID(), Claim: worker.State().String(),
		Slot:    slot{Path: worker.SlotPath(), Owner: worker.Owner(), Generation: worker.Generation(), High: high},
		Reserve: s.reserve().String(), Connection: s.client.State().String(),
		EndOfLife: s.layout.EndOfLife().Format(time.DateOnly),
	})
}

// reserve returns for how long IDs can be made without ZooKeeper.
func (s *service) reserve() time.Duration {
	_, high := s.ids.Worker().Reserved()
	return max(0, time.Until(high)).Round(time.Millisecond)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who does not read it has gone
}
