package main

import (
	"os"
	"path/filepath"
)

type chanPS struct{ ch chan []byte }

func (s *chanPS) Open(string) error { s.ch = make(chan []byte, 1024); return nil }
func (s *chanPS) Subscribe(fn func([]byte)) error {
	go func() {
		for r := range s.ch {
			fn(r)
		}
	}()
	return nil
}
func (s *chanPS) Publish(rec []byte) error { s.ch <- rec; return nil }
func (s *chanPS) Close() error             { return nil }

type filePS struct {
	f    *os.File
	wake chan int
}

func (s *filePS) Open(dir string) (err error) {
	s.wake = make(chan int, 1024)
	s.f, err = os.Create(filepath.Join(dir, "log"))
	return err
}
func (s *filePS) Subscribe(fn func([]byte)) error {
	go func() {
		buf, off := make([]byte, 64<<10), int64(0)
		for n := range s.wake {
			s.f.ReadAt(buf[:n], off)
			off += int64(n)
			fn(buf[:n])
		}
	}()
	return nil
}
func (s *filePS) Publish(rec []byte) error {
	_, err := s.f.Write(rec)
	s.wake <- len(rec)
	return err
}
func (s *filePS) Close() error { return s.f.Close() }
