/**
 * Credit: how much the server may send before it hears more from us. Bytes are given back as soon as
 * they are taken in, unless too much waits for the application; then the server waits as well, and its
 * topics' policies say what becomes of the rest.
 */
import { Writer } from "./bytes.js";

export class Credit {
  /** Received and not given back. */
  private owed = 0;
  /** What waits for the application. */
  private held = 0;
  private send: ((payload: Writer) => void) | undefined;

  /** A window of 0 bytes means no limit. */
  constructor(private readonly window: number) {}

  begin(send: (payload: Writer) => void): void {
    this.owed = 0;
    if (!this.window) return;
    this.send = send;
    send(new Writer().varint(this.window));
  }

  end(): void {
    this.send = undefined;
  }

  received(bytes: number): void {
    this.owed += bytes;
  }

  hold(bytes: number): void {
    this.held += bytes;
    if (bytes < 0) this.grant();
  }

  grant(): void {
    if (this.held * 2 >= this.window || this.owed * 2 < this.window) return;
    this.send?.(new Writer().varint(this.owed));
    this.owed = 0;
  }
}
