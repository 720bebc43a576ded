/**
 * All interests of a client by their ids: subscribes them on each new connection and leads to them
 * what arrives. Invariant: an id is used again only when the server has let go of it.
 */
import { Reader } from "./bytes.js";
import { TideraceError } from "./error.js";
import type { Interest } from "./interest.js";
import { type Link } from "./link.js";
interface Place {
    interest: Interest;
    /** The application is through with it; the id waits for the server's answer. */
    ended: boolean;
}
export declare class Hub {
    private readonly refused;
    private readonly places;
    /** By topic id: whose, and which path. Of the present connection. */
    private topics;
    private recovering;
    private link;
    /** The life of the server that is connected, or was last. */
    private epoch;
    /** The same, if the position that it was told is not of it. */
    private another;
    constructor(refused: (error: TideraceError) => void);
    add(interest: Interest): void;
    /** Done when the server has let go of it. */
    remove(interest: Interest): Promise<void>;
    idOf(interest: Interest): number;
    /** A connection to a server, in the life `epoch`, that was told a position of the life `position`. */
    up(link: Link, epoch: string, position: string): void;
    down(): void;
    /** The position is of this life of the server from now on, and so are all versions. */
    positioned(): void;
    /** Nothing will come any more. */
    close(error: TideraceError): void;
    /** Takes a message, if it is about interests. */
    message(type: number, input: Reader): void;
    /** Whose subscription or topic id that is; one that nobody knows would be a loss nobody notices. */
    find(announced: number, id: number): {
        place: Place;
        path?: string;
    };
    /** The server would not have it, or not any more. */
    private over;
    private get tellsValues();
    private update;
    private subscribe;
}
export {};
