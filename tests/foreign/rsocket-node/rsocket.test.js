// rsocket-js over TCP and WebSocket.

import { conversations } from './conversations.js';
import { Peer } from './peer.js';

for (const kind of ['tcp', 'websocket']) conversations(`rsocket-js over ${kind}`, (options) => Peer.open(kind, options));
